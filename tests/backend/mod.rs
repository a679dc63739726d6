//! Tests of the sandbox with hostile guests, and of the admission of components.

mod admission;
mod contract;
pub mod failures;
mod frozen;
mod hostile;
pub mod observers;
mod older;
pub mod policies;
mod pool;
mod rollback;
mod rollout;
mod stand_in;
mod trust;
mod versions;
pub mod wasi;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::guests::Wat;
use aetheel_model::agent::{
    Action, AgentEventKind, HostCommand, Input, Safety, StartTurn, TimedInput,
};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::{Backend as _, Guest, GuestFailure};
use aetheel_settings::Config;
use aetheel_store::workspace::Components;
use aetheel_turn::Backends as _;
use aetheel_wasm::{Engine, LoadReport, Registry, RegistryOptions, TrustGate};

/// Returns limits that are small enough for tests to reach them.
pub fn limits() -> ResourceLimits {
    ResourceLimits {
        guest_call: Duration::from_millis(300),
        guest_memory: 16 << 20,
        ..ResourceLimits::default()
    }
}

/// Starts a registry with a folder of these files, and with delays that are short enough for tests.
pub async fn registry(
    folder: &Path,
    limits: &ResourceLimits,
    files: &[(&str, &[u8])],
) -> (Registry, Vec<LoadReport>) {
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let options = RegistryOptions {
        directory: folder.to_owned(),
        quiet: Duration::from_millis(20),
        rescan: Duration::from_secs(3600),
        ..RegistryOptions::new(folder)
    };
    Registry::start(Engine::new(limits, None, aetheel_settings::NAMES).unwrap(), options).await
}

/// Folders for backends and configuration, and a registry that uses them as in a gateway.
pub struct Stand {
    folder: tempfile::TempDir,
    pub registry: Registry,
    pub reports: Vec<LoadReport>,
    news: tokio::sync::broadcast::Receiver<LoadReport>,
}

impl Stand {
    /// Creates one with these settings, and these files in the folder of backends.
    pub async fn new(settings: &[(&str, &str)], files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["config", "backends"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for (name, bytes) in files {
            std::fs::write(folder.path().join("backends").join(name), bytes).unwrap();
        }
        // The permissions of components with these names were approved before.
        for name in ["mini", "other"] {
            Wat::new(name, "1").accepted_in(&folder.path().join("config"));
        }
        Self::over(folder, settings).await
    }

    /// Creates one with existing folders.
    pub async fn over(folder: tempfile::TempDir, settings: &[(&str, &str)]) -> Self {
        let at = folder.path().join("config").display().to_string();
        let set = |name: &str| {
            settings.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        };
        let config =
            Config::read(|name| if name == "CONFIG_DIR" { Some(at.clone()) } else { set(name) })
                .unwrap();
        let options = RegistryOptions {
            quiet: Duration::from_millis(20),
            rescan: Duration::from_secs(3600),
            gate: TrustGate::new(
                &config.config_dir,
                config.backend_trust,
                config.backend_signers.clone(),
            ),
            components: Some(Components::new(&config.config_dir)),
            rollout: config.backend_rollout.clone(),
            ..RegistryOptions::new(&folder.path().join("backends"))
        };
        let (registry, reports) = Registry::start(
            Engine::new(&config.limits, None, aetheel_settings::NAMES).unwrap(),
            options,
        )
        .await;
        registry.keep();
        let news = registry.subscribe();
        Self { folder, registry, reports, news }
    }

    /// Stops the registry as a restart does, and returns the folders.
    pub fn end(self) -> tempfile::TempDir {
        self.folder
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of a file in the folder of backends.
    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.path("backends").join(name)
    }

    /// Moves a file into the folder of backends atomically.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let staged = self.path("staged");
        std::fs::write(&staged, bytes).unwrap();
        std::fs::rename(staged, self.file(name)).unwrap();
    }

    /// Returns the next report of a change.
    pub async fn news(&mut self) -> LoadReport {
        loop {
            match tokio::time::timeout(Duration::from_secs(30), self.news.recv())
                .await
                .expect("news")
                .unwrap()
            {
                LoadReport::Unchanged { .. } => {}
                report => return report,
            }
        }
    }

    /// Waits until this version of a backend serves.
    pub async fn serves(&self, name: &str, version: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self
            .registry
            .component(name)
            .is_none_or(|backend| backend.descriptor().version != version)
        {
            assert!(
                Instant::now() < deadline,
                "waited in vain for {name} {version}: {:?}",
                self.registry
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut guest = self.registry.get(name).unwrap().open().await.unwrap();
        assert_eq!(version_told(&guest.handle(prompt(1, 1)).await.unwrap()), version);
    }

    /// Waits until this many components of a backend are kept.
    pub async fn keeps(&self, name: &str, count: usize) {
        let folder = self.path("config/state/components").join(name);
        let deadline = Instant::now() + Duration::from_secs(30);
        let kept = || {
            std::fs::read_dir(&folder)
                .map_or(0, |files| files.filter(|file| is_kept(file.as_ref().unwrap())).count())
        };
        while kept() != count {
            assert!(
                Instant::now() < deadline,
                "waited in vain for {count} kept components, there are {}",
                kept()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn is_kept(file: &std::fs::DirEntry) -> bool {
    let name = file.file_name();
    name.to_str().is_some_and(|name| name.ends_with(".wasm") && !name.starts_with('.'))
}

/// Returns the digest of a component.
pub fn digest(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn timed(input: Input) -> TimedInput {
    TimedInput { at_ms: 1.0, input }
}

/// Returns the first prompt of a session and turn.
pub fn prompt(session: u32, turn: u32) -> Vec<TimedInput> {
    vec![timed(Input::Command(HostCommand::StartTurn(StartTurn {
        session,
        turn,
        ..StartTurn::plain("hello", Safety::Default)
    })))]
}

/// Returns the version with which a guest of `support::guests` answers `timer` and `start-turn`.
pub fn version_told(actions: &[Action]) -> &str {
    match actions.first() {
        Some(Action::Event(event)) => match &event.kind {
            AgentEventKind::Text(text) => &text.text,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Makes the guest misbehave. Returns its failure, and how long it took.
pub async fn provoke(guest: &mut dyn Guest) -> (GuestFailure, Duration) {
    let begun = Instant::now();
    let failure =
        guest.handle(vec![timed(Input::Timer(1))]).await.expect_err("the guest did not fail");
    (failure, begun.elapsed())
}
