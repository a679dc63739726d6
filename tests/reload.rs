//! Tests of replacing components while they serve: in every way a file can change, and under load.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use aetheel_model::agent::Input;
use aetheel_model::limits::ResourceLimits;
use aetheel_turn::Backends;
use aetheel_wasm::{AdmissionError, Engine, LoadReport, Registry, RegistryOptions};
use tokio::sync::broadcast::Receiver;

use crate::backend::{prompt, timed, version_told};
use crate::support::guests::{Wat, answering};

/// A watched folder with the backend `mini`, version 1, in `mini.wasm`.
struct Scene {
    folder: tempfile::TempDir,
    registry: Registry,
    news: Receiver<LoadReport>,
}

impl Scene {
    async fn new() -> Self {
        Self::with_quiet(Duration::from_millis(40)).await
    }

    async fn with_quiet(quiet: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("backends")).unwrap();
        fs::write(folder.path().join("backends/mini.wasm"), answering("mini", "1")).unwrap();
        let options = RegistryOptions {
            directory: folder.path().join("backends"),
            quiet,
            rescan: Duration::from_secs(3600),
            ..RegistryOptions::new(folder.path())
        };
        let (registry, reports) = Registry::start(
            Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap(),
            options,
        )
        .await;
        assert!(
            matches!(&reports[..], [LoadReport::Loaded { name, .. }] if name == "mini"),
            "{reports:?}"
        );
        let news = registry.subscribe();
        Self { folder, registry, news }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("backends/mini.wasm")
    }

    fn aside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes bytes beside the folder and returns their path.
    fn stage(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.aside(name), bytes).unwrap();
        self.aside(name)
    }

    async fn next(&mut self) -> LoadReport {
        next(&mut self.news).await
    }

    /// Expects the next report to be generation `number`, which answers with `version`.
    async fn loaded(&mut self, number: u32, version: &str) {
        let report = change(&mut self.news).await;
        let LoadReport::Loaded { generation, .. } = &report else { panic!("{report:?}") };
        assert_eq!(generation.number, number, "{report:?}");
        self.serves(number, version).await;
    }

    /// Expects the next report to be a refusal, and the old generation to serve.
    async fn refused(&mut self, number: u32, version: &str) -> Arc<AdmissionError> {
        let report = change(&mut self.news).await;
        let LoadReport::Refused { reason, path } = report else { panic!("{report:?}") };
        assert!(path.is_absolute() && !reason.hint().is_empty());
        self.serves(number, version).await;
        reason
    }

    async fn serves(&self, number: u32, version: &str) {
        let backend = self.registry.get("mini").expect("still there");
        let mut guest = backend.open().await.unwrap();
        assert_eq!(version_told(&guest.handle(prompt(1, 1)).await.unwrap()), version);
        assert_eq!(backend.generation().number, number);
        assert_eq!(backend.descriptor().version, version);
    }
}

async fn next(news: &mut Receiver<LoadReport>) -> LoadReport {
    tokio::time::timeout(Duration::from_secs(30), news.recv()).await.expect("news").unwrap()
}

/// Returns the next report of a change. One change may cause several events of the file system. If
/// a busy machine spreads them beyond the short quiet time of these tests, the later ones are
/// reported as `Unchanged`.
async fn change(news: &mut Receiver<LoadReport>) -> LoadReport {
    loop {
        match next(news).await {
            LoadReport::Unchanged { .. } => {}
            report => return report,
        }
    }
}

#[tokio::test]
async fn a_file_renamed_over_the_old_one_is_loaded() {
    let mut scene = Scene::new().await;
    fs::write(scene.aside("backends/.mini.wasm"), answering("mini", "2")).unwrap();
    fs::rename(scene.aside("backends/.mini.wasm"), scene.file()).unwrap();
    scene.loaded(2, "2").await;
    fs::rename(scene.stage("elsewhere", &answering("mini", "3")), scene.file()).unwrap();
    scene.loaded(3, "3").await;
}

#[tokio::test]
async fn a_file_written_in_place_copied_installed_or_linked_is_loaded() {
    let mut scene = Scene::new().await;
    fs::write(scene.file(), answering("mini", "2")).unwrap();
    scene.loaded(2, "2").await;
    for (number, command) in [(3, "cp"), (4, "install"), (5, "ln")] {
        let version = number.to_string();
        let staged = scene.stage(&version, &answering("mini", &version));
        let mut run = std::process::Command::new(command);
        if command == "ln" {
            run.arg("-f"); // as cargo does: unlink, then a hard link
        }
        assert!(run.arg(staged).arg(scene.file()).status().unwrap().success());
        scene.loaded(number, &version).await;
    }
}

#[tokio::test]
async fn a_slowly_written_file_is_loaded_once_when_it_is_complete() {
    let mut scene = Scene::with_quiet(Duration::from_millis(400)).await;
    let bytes = answering("mini", "2");
    let mut file = fs::File::create(scene.file()).unwrap();
    for piece in bytes.chunks(bytes.len() / 6) {
        file.write_all(piece).unwrap();
        file.flush().unwrap();
        // The test needs a slow writer.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    drop(file);
    // On a machine that prolongs the pauses, a part of the file may be loaded, which is refused.
    let report = loop {
        match change(&mut scene.news).await {
            LoadReport::Refused { .. } => {}
            report => break report,
        }
    };
    assert!(matches!(&report, LoadReport::Loaded { name, .. } if name == "mini"), "{report:?}");
    scene.serves(2, "2").await;
    // A second load would be reported before that of a later file.
    fs::write(scene.aside("backends/other.wasm"), answering("other", "1")).unwrap();
    let report = change(&mut scene.news).await;
    assert!(matches!(&report, LoadReport::Loaded { name, .. } if name == "other"), "{report:?}");
    scene.serves(2, "2").await;
}

#[tokio::test]
async fn a_file_written_with_long_pauses_is_refused_first_and_loaded_in_the_end() {
    let mut scene = Scene::new().await;
    let bytes = answering("mini", "2");
    let mut file = fs::File::create(scene.file()).unwrap();
    file.write_all(&bytes[..bytes.len() / 2]).unwrap();
    let reason = scene.refused(1, "1").await;
    assert!(matches!(*reason, AdmissionError::Compile(_)), "{reason}");
    file.write_all(&bytes[bytes.len() / 2..]).unwrap();
    drop(file);
    scene.loaded(2, "2").await;
}

#[tokio::test]
async fn a_refused_component_leaves_the_old_generation_serving_and_is_reported() {
    let mut scene = Scene::new().await;
    let good = answering("mini", "2");
    fs::write(scene.file(), &good[..good.len() * 2 / 3]).unwrap();
    assert!(matches!(*scene.refused(1, "1").await, AdmissionError::Compile(_)));
    let mut corrupt = good.clone();
    corrupt.iter_mut().skip(good.len() / 3).step_by(50).for_each(|byte| *byte ^= 0x55);
    fs::write(scene.file(), &corrupt).unwrap();
    assert!(matches!(*scene.refused(1, "1").await, AdmissionError::Compile(_)));
    fs::write(scene.file(), "").unwrap();
    assert!(matches!(*scene.refused(1, "1").await, AdmissionError::NotWasm(_)));
    fs::write(scene.file(), Wat { contract: "0.4.0".to_owned(), ..Wat::new("mini", "2") }.build())
        .unwrap();
    assert!(matches!(*scene.refused(1, "1").await, AdmissionError::ContractVersion(_)));
    let crashing = Wat {
        handle: "(if (local.get $n) (then unreachable))".to_owned(),
        ..Wat::new("mini", "2")
    };
    fs::write(scene.file(), crashing.build()).unwrap();
    assert!(matches!(*scene.refused(1, "1").await, AdmissionError::Trial { .. }));
    fs::write(scene.file(), &good).unwrap();
    scene.loaded(2, "2").await;
}

#[tokio::test]
async fn a_removed_file_leaves_its_generation_serving_and_may_return() {
    let mut scene = Scene::new().await;
    fs::remove_file(scene.file()).unwrap();
    let report = scene.next().await;
    assert!(matches!(&report, LoadReport::Vanished { name, .. } if name == "mini"), "{report:?}");
    scene.serves(1, "1").await;
    fs::write(scene.file(), answering("mini", "1")).unwrap();
    let report = scene.next().await;
    assert!(matches!(&report, LoadReport::Unchanged { .. }), "{report:?}");
    fs::write(scene.file(), answering("mini", "2")).unwrap();
    scene.loaded(2, "2").await;
}

#[tokio::test]
async fn identical_content_is_not_loaded_again() {
    let mut scene = Scene::new().await;
    let before = scene.registry.component("mini").unwrap();
    fs::rename(scene.stage("same", &answering("mini", "1")), scene.file()).unwrap();
    let report = scene.next().await;
    assert!(matches!(&report, LoadReport::Unchanged { .. }), "{report:?}");
    assert!(Arc::ptr_eq(&before, &scene.registry.component("mini").unwrap()));
}

#[tokio::test]
async fn a_rescan_without_changes_reports_nothing() {
    let mut scene = Scene::new().await;
    fs::write(scene.aside("backends/other.wasm"), "nonsense").unwrap();
    let report = scene.next().await;
    assert!(matches!(&report, LoadReport::Refused { .. }), "{report:?}");
    for _ in 0..3 {
        scene.registry.rescan();
    }
    // The next report is about the next change, not a repetition of the last one.
    fs::write(scene.file(), answering("mini", "2")).unwrap();
    scene.loaded(2, "2").await;
}

#[tokio::test]
async fn a_swapped_symbolic_link_is_loaded_and_so_is_a_rewritten_target() {
    let mut scene = Scene::new().await;
    symlink(scene.stage("two", &answering("mini", "2")), scene.aside("link")).unwrap();
    fs::rename(scene.aside("link"), scene.file()).unwrap();
    scene.loaded(2, "2").await;
    symlink(scene.stage("three", &answering("mini", "3")), scene.aside("link")).unwrap();
    fs::rename(scene.aside("link"), scene.file()).unwrap();
    scene.loaded(3, "3").await;
    // No event reports this change: the rescan finds it.
    fs::write(scene.aside("three"), answering("mini", "4")).unwrap();
    scene.registry.rescan();
    scene.loaded(4, "4").await;
}

#[tokio::test]
async fn a_replaced_folder_is_watched_again() {
    let mut scene = Scene::new().await;
    fs::create_dir(scene.aside("next")).unwrap();
    fs::write(scene.aside("next/mini.wasm"), answering("mini", "2")).unwrap();
    fs::rename(scene.aside("backends"), scene.aside("old")).unwrap();
    fs::rename(scene.aside("next"), scene.aside("backends")).unwrap();
    scene.registry.rescan();
    loop {
        match scene.next().await {
            // The path may have been checked in between, when there was no folder.
            LoadReport::Vanished { .. } => scene.registry.rescan(),
            LoadReport::Unchanged { .. } => {}
            LoadReport::Loaded { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    scene.serves(2, "2").await;
    fs::write(scene.file(), answering("mini", "3")).unwrap();
    scene.loaded(3, "3").await;
}

#[tokio::test]
async fn a_folder_that_appears_later_is_picked_up() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("later");
    let options = RegistryOptions {
        directory: directory.clone(),
        quiet: Duration::from_millis(20),
        rescan: Duration::from_millis(100),
        ..RegistryOptions::new(&directory)
    };
    let (registry, reports) = Registry::start(
        Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap(),
        options,
    )
    .await;
    assert!(reports.is_empty() && registry.names().is_empty());
    let mut news = registry.subscribe();
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("mini.wasm"), answering("mini", "1")).unwrap();
    let report = next(&mut news).await;
    assert!(matches!(&report, LoadReport::Loaded { .. }), "{report:?}");
    assert_eq!(registry.names(), ["mini"]);
}

#[tokio::test]
async fn the_second_of_two_files_with_one_name_is_refused_until_the_first_is_removed() {
    let mut scene = Scene::new().await;
    let rival = scene.aside("backends/rival.wasm");
    fs::write(&rival, answering("mini", "2")).unwrap();
    let reason = scene.refused(1, "1").await;
    assert!(
        matches!(&*reason, AdmissionError::NameTaken { name, owner } if name == "mini" && *owner == scene.file()),
        "{reason}"
    );
    fs::remove_file(scene.file()).unwrap();
    let report = scene.next().await;
    assert!(matches!(&report, LoadReport::Vanished { .. }), "{report:?}");
    scene.loaded(2, "2").await;
}

#[tokio::test]
async fn a_running_link_stays_on_its_generation() {
    let mut scene = Scene::new().await;
    let old = scene.registry.get("mini").unwrap();
    let mut running = old.open().await.unwrap();
    assert_eq!(version_told(&running.handle(prompt(1, 1)).await.unwrap()), "1");
    fs::write(scene.file(), answering("mini", "2")).unwrap();
    scene.loaded(2, "2").await;
    assert_eq!(version_told(&running.handle(vec![timed(Input::Timer(1))]).await.unwrap()), "1");
    assert_eq!(
        version_told(&old.open().await.unwrap().handle(prompt(1, 1)).await.unwrap()),
        "1",
        "a turn keeps the component that it got first"
    );
}

/// Replaces `mini` 200 times while links are opened and used. No link is lost, and none mixes two
/// generations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_link_mixes_generations_through_two_hundred_swaps() {
    let mut scene = Scene::with_quiet(Duration::from_millis(4)).await;
    let registry = Arc::new(scene.registry);
    let (done, links, highest) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicU32::new(0)),
    );
    let mut users = tokio::task::JoinSet::new();
    for session in 1..=4 {
        let (registry, done, links, highest) =
            (registry.clone(), done.clone(), links.clone(), highest.clone());
        users.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let backend = registry.get("mini").expect("there is always one");
                let version = backend.generation().number.to_string();
                let mut guest = backend.open().await.expect("it opens");
                assert_eq!(version_told(&guest.handle(prompt(session, 1)).await.unwrap()), version);
                for timer in 0..5 {
                    tokio::task::yield_now().await;
                    assert_eq!(
                        version_told(
                            &guest.handle(vec![timed(Input::Timer(timer))]).await.unwrap()
                        ),
                        version
                    );
                }
                links.fetch_add(1, Ordering::Relaxed);
                highest.fetch_max(backend.generation().number, Ordering::Relaxed);
            }
        });
    }
    let file = scene.folder.path().join("backends/mini.wasm");
    for number in 2..=201_u32 {
        replace(&file, &answering("mini", &number.to_string()));
        let report = change(&mut scene.news).await;
        assert!(
            matches!(&report, LoadReport::Loaded { generation, .. } if generation.number == number),
            "{number}: {report:?}"
        );
    }
    // The last generation is also used before the end.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while highest.load(Ordering::Relaxed) < 201 {
        assert!(tokio::time::Instant::now() < deadline, "the last generation was never used");
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::Relaxed);
    while let Some(user) = users.join_next().await {
        user.unwrap();
    }
    assert!(links.load(Ordering::Relaxed) >= 200, "hardly any links were opened: {links:?}");
}

/// Replaces a file atomically.
fn replace(file: &Path, bytes: &[u8]) {
    let staged = file.with_extension("new");
    fs::write(&staged, bytes).unwrap();
    fs::rename(staged, file).unwrap();
}
