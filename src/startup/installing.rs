//! A component on its way into the folder of backends: where it goes, and what it replaces.
//!
//! For the operator who installs one, and for one that another node hands to all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LoadedBackends;
use crate::agents::AgentRegistry;
use crate::backend::{
    AdmissionError, Engine, Gate, Installation, Registry, StagedComponent, Wants,
};
use crate::config::Config;
use crate::plain::with_causes;
use crate::workspace::{Components, Served, component_digest};

/// Longest name of a file that is taken from another machine, bytes.
const LONGEST_NAME: usize = 200;

/// Whether this can be the name of a component's file, and of nothing elsewhere.
#[must_use]
pub fn is_component_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.ends_with(".wasm")
        && !name.starts_with('.')
        && !name.chars().any(|letter| letter.is_control() || matches!(letter, '/' | '\\'))
}

/// Puts components into the operator's folder. Cheap to clone.
#[derive(Clone)]
pub struct Installer {
    folder: PathBuf,
    kept: Components,
    engine: Engine,
    gate: Gate,
    agents: Arc<AgentRegistry>,
    components: Arc<Registry>,
}

/// A component that was admitted, with what its installation means.
pub struct Plan {
    /// The component.
    pub staged: StagedComponent,
    /// Where it goes.
    pub target: PathBuf,
    /// What it replaces.
    pub before: Option<StagedComponent>,
    /// The name that what is there gets, where that is nothing that could serve.
    pub aside: Option<PathBuf>,
    /// Its wishes beyond what is accepted.
    pub wants: Option<Wants>,
}

impl Installer {
    /// For the folder of the settings.
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

    /// Judges and admits what came from another machine; `file` is its name there.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve here.
    pub async fn stage(&self, file: &str, of: Served) -> Result<StagedComponent, AdmissionError> {
        self.engine.stage_bytes(Path::new(file), of, &self.gate, false).await
    }

    /// Looks where a component goes that has this file name. Changes nothing.
    pub async fn plan(&self, staged: StagedComponent, file: &Path) -> Plan {
        let name = &staged.inspection.descriptor.name;
        // For which of several files it stands depends on the installed agent.
        self.agents.examine(name).await;
        let target = self.target(name, file, &staged.inspection.digest).await;
        // The same bytes need no further trust.
        let same = digest_of(&target).await.as_ref() == Some(&staged.inspection.digest);
        let before = match self.engine.stage(&target, &self.gate, same).await {
            Ok(before) if before.inspection.descriptor.name == *name => Some(before),
            // There is none; or it is refused as it is, or another backend, and put aside.
            _ => None,
        };
        let aside = before
            .is_none()
            .then(|| target.with_extension("wasm.replaced"))
            .filter(|_| target.exists());
        let wants = self.gate.wants(&staged.inspection.descriptor).await;
        Plan { staged, target, before, aside, wants }
    }

    /// Writes it, hidden, beside its target, and keeps what it replaces for a rollback. Nothing that
    /// serves has changed yet.
    ///
    /// # Errors
    /// What cannot be written, and what to do.
    pub async fn prepare(&self, plan: &Plan) -> Result<Installation, String> {
        let installation = plan.staged.prepare(&plan.target).await.map_err(|error| {
            format!(
                "cannot write to {}: {error}; check the permissions of BACKENDS_DIR",
                self.folder.display()
            )
        })?;
        if let Some(before) = &plan.before {
            let (kept, served, backend) =
                (self.kept.clone(), before.served(), before.inspection.descriptor.name.clone());
            tokio::task::spawn_blocking(move || kept.keep(&backend, &served))
                .await
                .map_err(|error| error.to_string())?
                .map_err(|error| {
                    format!("what it would replace cannot be kept: {}", with_causes(&error))
                })?;
        }
        Ok(installation)
    }

    /// Returns the file of the component's own file name if that is of its backend, else the one
    /// that serves. Where nothing serves: the file that holds the very component, else the one that
    /// served last, else a new one named after the backend.
    async fn target(&self, name: &str, file: &Path, digest: &str) -> PathBuf {
        let Some(chosen) = self.components.chosen(name) else {
            let fresh = self.folder.join(format!("{name}.wasm"));
            return match self.unserved(name, digest).await {
                Some(there) => there,
                None => fresh,
            };
        };
        let of_its_name = chosen
            .others
            .iter()
            .map(|other| &other.path)
            .find(|path| path.file_name() == file.file_name());
        of_its_name.unwrap_or(&chosen.path).clone()
    }

    /// Finds the file of a backend that nothing serves, so that no second file of it comes about.
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

/// Returns the SHA-256 of a file; `None` if it cannot be read.
async fn digest_of(path: &Path) -> Option<String> {
    let path = path.to_owned();
    let read = move || Some(component_digest(&std::fs::read(path).ok()?));
    tokio::task::spawn_blocking(read).await.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_another_machine_leads_nowhere() {
        assert!(is_component_name("codex.wasm") && is_component_name("my codex-2.wasm"));
        for name in
            ["../x.wasm", "/x.wasm", "a\\x.wasm", ".wasm", ".x.wasm", "x", "x\n.wasm", "\0.wasm"]
        {
            assert!(!is_component_name(name), "{name:?}");
        }
        assert!(!is_component_name(&("x".repeat(LONGEST_NAME) + ".wasm")));
    }
}
