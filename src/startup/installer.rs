//! Installs components into the folder of backends, for `aetheel backend install` and for automatic
//! mending.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LoadedBackends;
use crate::agents::AgentRegistry;
use aetheel_model::plain::with_causes;
use aetheel_recording::Backend as _;
use aetheel_settings::Config;
use aetheel_store::workspace::{Components, FileError, ServedComponent, component_digest};
use aetheel_wasm::{
    AdmissionError, Engine, Installation, Registry, RequestedCapabilities, StagedComponent,
    TrustGate,
};

/// Longest file name that the publisher of a component may choose, in bytes.
const LONGEST_NAME: usize = 200;

/// Returns whether `name` is a valid file name for a component and not a path to another folder.
#[must_use]
pub fn is_component_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.ends_with(".wasm")
        && !name.starts_with('.')
        && !name.chars().any(|letter| letter.is_control() || matches!(letter, '/' | '\\'))
}

/// The reason why the files of an installation cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The component cannot be written to the folder of backends.
    #[error("cannot write to {}: {error}; check the permissions of BACKENDS_DIR", folder.display())]
    Write {
        /// The folder of backends.
        folder: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The replaced component cannot be saved for a rollback.
    #[error("cannot save the replaced version: {}", with_causes(.0))]
    Save(#[source] FileError),
    /// The thread that saved the replaced component panicked or was stopped.
    #[error(transparent)]
    Interrupted(#[from] tokio::task::JoinError),
}

/// Installs components into `BACKENDS_DIR`. Cheap to clone.
#[derive(Clone)]
pub struct Installer {
    folder: PathBuf,
    kept: Components,
    engine: Engine,
    gate: TrustGate,
    agents: Arc<AgentRegistry>,
    components: Arc<Registry>,
}

/// An admitted component and the effects of its installation.
pub struct InstallPlan {
    /// The component.
    pub staged: StagedComponent,
    /// The file that will contain it.
    pub target: PathBuf,
    /// The component of the same backend that it replaces.
    pub before: Option<StagedComponent>,
    /// New name for the existing file if that is not a usable component of this backend.
    pub aside: Option<PathBuf>,
    /// The capabilities that it needs and that were not accepted yet.
    pub wants: Option<RequestedCapabilities>,
}

impl Installer {
    /// Creates an installer for `BACKENDS_DIR`.
    #[must_use]
    pub fn of(loaded: &LoadedBackends, config: &Config) -> Self {
        Self {
            folder: config.backends_dir.clone(),
            kept: Components::new(&config.config_dir),
            engine: loaded.engine.clone(),
            gate: loaded.gate.clone(),
            agents: Arc::clone(&loaded.agents),
            components: Arc::clone(&loaded.components),
        }
    }

    /// Returns the engine that compiles and examines components.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.engine.clone()
    }

    /// Checks a component that is not a file yet. `file` is the name that messages use.
    ///
    /// # Errors
    /// Returns [`AdmissionError`] if the component cannot serve here.
    pub async fn stage(
        &self,
        file: &str,
        of: ServedComponent,
    ) -> Result<StagedComponent, AdmissionError> {
        self.engine.stage_bytes(Path::new(file), of, &self.gate, false).await
    }

    /// Determines the target and the effects of an installation. `file` is the file name of the
    /// component. Changes nothing.
    pub async fn plan(&self, staged: StagedComponent, file: &Path) -> InstallPlan {
        let name = &staged.inspection.descriptor.name;
        // If a backend has several files, the version of the installed agent selects the target.
        self.agents.examine(name).await;
        let target = self.target(name, file, &staged.inspection.digest).await;
        // The same bytes have passed the check of trust already.
        let same = digest_of(&target).await.as_ref() == Some(&staged.inspection.digest);
        let before = match self.engine.stage(&target, &self.gate, same).await {
            Ok(before) if before.inspection.descriptor.name == *name => Some(before),
            // The file does not exist, is refused, or belongs to another backend.
            _ => None,
        };
        let aside = before
            .is_none()
            .then(|| target.with_extension("wasm.replaced"))
            .filter(|_| target.exists());
        let wants = self.gate.wants(&staged.inspection.descriptor).await;
        InstallPlan { staged, target, before, aside, wants }
    }

    /// Writes the component to a hidden file beside its target, and saves the replaced component
    /// for a rollback. The serving component does not change yet.
    ///
    /// # Errors
    /// Returns [`InstallError`] if a file cannot be written.
    pub async fn prepare(&self, plan: &InstallPlan) -> Result<Installation, InstallError> {
        let installation = plan
            .staged
            .prepare(&plan.target)
            .await
            .map_err(|error| InstallError::Write { folder: self.folder.clone(), error })?;
        // A version that never served, because it is on rollout, is not kept.
        let serving = |before: &StagedComponent| {
            let serving = self.components.component(&before.inspection.descriptor.name);
            serving.is_none_or(|it| it.generation().digest == before.inspection.digest)
        };
        if let Some(before) = plan.before.as_ref().filter(|before| serving(before)) {
            let (kept, served, backend) =
                (self.kept.clone(), before.served(), before.inspection.descriptor.name.clone());
            tokio::task::spawn_blocking(move || kept.keep(&backend, &served))
                .await?
                .map_err(InstallError::Save)?;
        }
        Ok(installation)
    }

    /// Returns the file to replace. If the backend serves, that is its file with the same name as
    /// the component's file, otherwise the file that serves. If the backend does not serve, it is
    /// the file with the same content, otherwise the file that served last, otherwise a new file
    /// named after the backend.
    async fn target(&self, name: &str, file: &Path, digest: &str) -> PathBuf {
        let Some(chosen) = self.components.serving_info(name) else {
            let fresh = self.folder.join(format!("{name}.wasm"));
            return match self.unserved(name, digest).await {
                Some(there) => there,
                None => fresh,
            };
        };
        let of_its_name = chosen
            .alternatives
            .iter()
            .map(|other| &other.path)
            .find(|path| path.file_name() == file.file_name());
        of_its_name.unwrap_or(&chosen.path).clone()
    }

    /// Finds the existing file of a backend that does not serve, so that the installation does not
    /// create a second file for it.
    async fn unserved(&self, name: &str, digest: &str) -> Option<PathBuf> {
        let (folder, kept) = (self.folder.clone(), self.kept.clone());
        let (name, digest) = (name.to_owned(), digest.to_owned());
        let find = move || {
            let files = std::fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
            let is_component = |path: &PathBuf| path.extension().is_some_and(|end| end == "wasm");
            let mut files: Vec<PathBuf> = files.filter(is_component).collect();
            files.sort();
            let is_same = |path: &&PathBuf| {
                std::fs::read(path).is_ok_and(|bytes| component_digest(&bytes) == digest)
            };
            if let Some(same) = files.iter().find(is_same) {
                return Some(same.clone());
            }
            let last = kept.last().into_iter().find(|last| last.backend == name)?;
            files
                .into_iter()
                .find(|path| path.file_name().is_some_and(|file| file == last.file.as_str()))
        };
        tokio::task::spawn_blocking(find).await.ok()?
    }
}

/// Returns the SHA-256 of a file, or `None` if it cannot be read.
async fn digest_of(path: &Path) -> Option<String> {
    let path = path.to_owned();
    let read = move || Some(component_digest(&std::fs::read(path).ok()?));
    tokio::task::spawn_blocking(read).await.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_name_is_never_a_path() {
        assert!(is_component_name("codex.wasm") && is_component_name("my codex-2.wasm"));
        for name in
            ["../x.wasm", "/x.wasm", "a\\x.wasm", ".wasm", ".x.wasm", "x", "x\n.wasm", "\0.wasm"]
        {
            assert!(!is_component_name(name), "{name:?}");
        }
        assert!(!is_component_name(&("x".repeat(LONGEST_NAME) + ".wasm")));
    }
}
