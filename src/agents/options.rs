//! The options of backends and the accounts of agents that the operator set in `backends.md`. The
//! options are checked against the backends' descriptors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::{Map, Value};

use aetheel_model::agent::{Descriptor, options};
use aetheel_store::workspace::{Account, BackendFile, BackendNotes, FileError};

/// The operator's choices from `backends.md`, followed as the file changes.
pub(super) struct OptionChoices {
    file: BackendFile,
    known: RwLock<OptionsSnapshot>,
}

/// The reason why a name in `backends.md` cannot have options.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum NoOptions {
    #[error("is not used: options of profiles are set in acp.md")]
    Profile,
    #[error("belongs to a backend that does not serve here")]
    NotServing,
}

#[derive(Default)]
struct OptionsSnapshot {
    notes: Arc<BackendNotes>,
    /// Number of changes of each backend's options, or of its account, since the start.
    revisions: BTreeMap<String, u32>,
}

impl OptionChoices {
    /// Creates the options of a configuration folder. The file is not read yet.
    pub(super) fn new(config_dir: &Path) -> Self {
        Self { file: BackendFile::new(config_dir), known: RwLock::default() }
    }

    /// Checks that the file can be read.
    ///
    /// # Errors
    /// Returns [`FileError`] if `backends.md` exists but cannot be read.
    pub(super) async fn require(&self) -> Result<(), FileError> {
        self.file.require().await
    }

    /// Reads the file again if it changed. Returns whether any option or account changed.
    pub(super) async fn refresh(&self) -> bool {
        let (notes, changed) = self.file.refresh().await;
        if !changed {
            return false;
        }
        let mut known = self.known.write();
        let (before, after) = (known.notes.clone(), notes.clone());
        let names = before.options().keys().chain(after.options().keys()).collect::<BTreeSet<_>>();
        let mut others = false;
        for name in
            names.into_iter().filter(|name| choices_for(&before, name) != choices_for(&after, name))
        {
            *known.revisions.entry(name.clone()).or_default() += 1;
            others = true;
        }
        let accounts = [&before, &after].map(|notes| accounts_of(notes));
        let names: BTreeSet<&String> = accounts.iter().flat_map(BTreeMap::keys).collect();
        for name in names {
            let variables = |at: usize| Some(&accounts[at].get(name)?.variables);
            if variables(0) != variables(1) {
                *known.revisions.entry(name.clone()).or_default() += 1;
                others = true;
            }
        }
        known.notes = notes;
        others
    }

    /// Returns the account that makes a backend of this name, with the number of its changes since
    /// the start.
    pub(super) fn account(&self, backend: &str) -> Option<(Account, u32)> {
        let known = self.known.read();
        let account = known.notes.accounts().find(|account| account.backend() == backend)?;
        Some((account.clone(), known.revisions.get(backend).copied().unwrap_or_default()))
    }

    /// Returns all accounts.
    pub(super) fn accounts(&self) -> Vec<Account> {
        self.known.read().notes.accounts().cloned().collect()
    }

    /// Returns the backends between which the conversations of a backend change at a usage limit.
    pub(super) fn rotation(&self, backend: &str) -> Vec<String> {
        self.known.read().notes.rotation(backend)
    }

    /// Returns the valid options of a backend as a JSON object for its guests, with the number of
    /// changes since the start. Returns `None` if the backend never had options.
    pub(super) fn of(&self, descriptor: &Descriptor) -> Option<(String, u32)> {
        let known = self.known.read();
        let revision = *known.revisions.get(&descriptor.name)?;
        let chosen =
            known.notes.options().get(&descriptor.name).map(Vec::as_slice).unwrap_or_default();
        let sound = chosen.iter().filter_map(|chosen| {
            let value = options::option(&descriptor.options, &chosen.name, &chosen.value).ok()?;
            Some((chosen.name.clone(), value))
        });
        Some((Value::Object(sound.collect::<Map<_, _>>()).to_string(), revision))
    }

    /// Returns the problems of all options, one line each. `descriptor` returns the descriptor of a
    /// backend, or the reason why it cannot have options.
    pub(super) fn faults(
        &self,
        descriptor: impl Fn(&str) -> Result<Descriptor, NoOptions>,
    ) -> Vec<String> {
        let notes = self.known.read().notes.clone();
        let mut faults = Vec::new();
        for (name, all) in notes.options() {
            let descriptor = descriptor(name);
            for chosen in all {
                let fault = match &descriptor {
                    Ok(descriptor) => {
                        options::option(&descriptor.options, &chosen.name, &chosen.value)
                            .err()
                            .map(|error| error.to_string())
                    }
                    Err(error) => Some(error.to_string()),
                };
                let said = |fault| {
                    format!(
                        "backends.md line {}: option `{}` of `{name}` {fault}; it is left out",
                        chosen.line, chosen.name
                    )
                };
                faults.extend(fault.map(said));
            }
        }
        faults
    }
}

/// Returns the accounts by the names of their backends.
fn accounts_of(notes: &BackendNotes) -> BTreeMap<String, &Account> {
    notes.accounts().map(|account| (account.backend(), account)).collect()
}

/// Returns the names and values of a backend's options, without their lines in the file.
fn choices_for<'a>(notes: &'a BackendNotes, backend: &str) -> Option<Vec<(&'a str, &'a str)>> {
    notes
        .options()
        .get(backend)
        .map(|all| all.iter().map(|chosen| (chosen.name.as_str(), chosen.value.as_str())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn changed(options: &OptionChoices) {
        let change = async { while !options.refresh().await {} };
        let limit = std::time::Duration::from_secs(30);
        tokio::time::timeout(limit, change).await.expect("the change is followed");
    }

    #[tokio::test]
    async fn options_follow_their_file_and_invalid_ones_are_reported_with_their_line() {
        let json = r#"{"name":"x","version":"1","programs":[{"name":"x"}],"options":{"type":"object","properties":{"level":{"enum":["low","high"]}}}}"#;
        let descriptor = Descriptor::parse(json).expect("valid");
        let folder = tempfile::tempdir().expect("a folder");
        let options = OptionChoices::new(folder.path());
        assert!(!options.refresh().await && options.of(&descriptor).is_none());
        let write =
            |text: &str| std::fs::write(folder.path().join("backends.md"), text).expect("written");
        write("## x\n\n- option: level = high\n- option: colour = blue\n\n## y\n- option: a = b\n");
        assert!(options.refresh().await);
        assert_eq!(options.of(&descriptor), Some((r#"{"level":"high"}"#.to_owned(), 1)));
        let known = |name: &str| {
            if name == "x" { Ok(descriptor.clone()) } else { Err(NoOptions::NotServing) }
        };
        let wanted = [
            "backends.md line 4: option `colour` of `x` is not an option of this backend; it has `level`; it is left out",
            "backends.md line 7: option `a` of `y` belongs to a backend that does not serve here; it is left out",
        ];
        assert_eq!(options.faults(known), wanted);
        write("words\n\n## x\n\n- option: level = high\n- option: colour = blue\n");
        // A file that became shorter may still be incomplete for a moment.
        changed(&options).await;
        assert_eq!(
            options.of(&descriptor).map(|(_, revision)| revision),
            Some(1),
            "the options of x did not change"
        );
        write("## x\n");
        changed(&options).await;
        assert_eq!(options.of(&descriptor), Some(("{}".to_owned(), 2)));
    }
}
