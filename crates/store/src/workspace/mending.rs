//! `state/mending.md`: the changes of backends that agents made to read lost replies, so that the
//! decision about each survives a restart. The component of a change and its difference are in
//! `state/mended/`.

use std::path::{Path, PathBuf};

use super::FileError;
use super::state_file::{
    EntryError, EntryValue, LineForm, StateEntry, StateFile, Token, entry_fields,
};

const FORM: LineForm = LineForm::new(
    "{} #: from {} to {}, # rounds, # cents, {}",
    "it does not have a backend, a state, two components, two numbers, and a remark",
)
.with_any_words();

/// The state of an attempt to mend a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MendingState {
    /// The agent works, or its change is judged.
    Running,
    /// A change was accepted and waits for its notice.
    Ready,
    /// An owner was asked what to do with the change.
    Asked,
    /// The change was installed, or is on rollout.
    Installed,
    /// An owner discarded the change.
    Discarded,
    /// No change was accepted.
    Failed,
}

impl MendingState {
    const ALL: [Self; 6] =
        [Self::Running, Self::Ready, Self::Asked, Self::Installed, Self::Discarded, Self::Failed];

    /// Returns the word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Asked => "asked",
            Self::Installed => "installed",
            Self::Discarded => "discarded",
            Self::Failed => "failed",
        }
    }
}

/// The last attempt to mend a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MendingNote {
    /// The name of the component.
    pub backend: String,
    /// The state.
    pub state: MendingState,
    /// SHA-256 of the version that lost replies, lower-case hex.
    pub serving: String,
    /// SHA-256 of the changed version; empty until a change is accepted.
    pub component: String,
    /// The number of rounds of the agent.
    pub rounds: u32,
    /// The cost in hundredths of a US dollar.
    pub cents: u32,
    /// A remark without secrets: the number of replies, or the reason of a failure.
    pub remark: String,
}

impl MendingNote {
    /// Returns the file of a backend's changed component in a configuration folder.
    #[must_use]
    pub fn component_file(folder: &Path, backend: &str) -> PathBuf {
        folder.join("state/mended").join(format!("{backend}.wasm"))
    }

    /// Returns the file with the difference of a backend's sources in a configuration folder.
    #[must_use]
    pub fn difference_file(folder: &Path, backend: &str) -> PathBuf {
        folder.join("state/mended").join(format!("{backend}.diff"))
    }
}

impl StateFile<MendingNote> {
    /// Changes the state of an attempt if it is `from` and the changed version is `component`.
    /// Returns whether it was, so that a decision has one effect.
    ///
    /// # Errors
    /// [`FileError`]; the state is unchanged, so that the decision can be made again.
    pub async fn advance(
        &self,
        (backend, component): (&str, &str),
        from: MendingState,
        to: MendingState,
    ) -> Result<bool, FileError> {
        let (backend, component) = (backend.to_owned(), component.to_owned());
        self.try_change(move |notes| {
            let note = notes.get_mut(&backend);
            let note = note.filter(|note| note.state == from && note.component == component);
            let is_as_expected = note.is_some();
            note.into_iter().for_each(|note| note.state = to);
            Ok(is_as_expected)
        })
        .await
    }
}

impl StateEntry for MendingNote {
    type Key = String;
    const FILE: &str = "mending.md";
    const HEADING: &str = "# Mended backends

The last attempt to mend each backend: its state, the version that lost replies, the changed version, rounds of the agent, cost in
cents, and a remark. See docs/mending.md. If you remove a line, the gateway may mend that backend again.

";

    entry_fields!(FORM; backend, state, serving, component, rounds, cents, remark);

    fn key(&self) -> String {
        self.backend.clone()
    }
}

impl EntryValue for MendingState {
    fn to_text(&self) -> String {
        self.word().to_owned()
    }

    fn read(token: &Token) -> Result<Self, EntryError> {
        let known = Self::ALL.into_iter().find(|known| known.word() == token.text());
        known.ok_or(EntryError::Parts("its state is not known"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_decision_is_made_once_and_survives_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || StateFile::<MendingNote>::open(folder.path()).expect("opened");
        let notes = open();
        let note = MendingNote {
            backend: "mini".to_owned(),
            state: MendingState::Asked,
            serving: "ab12".to_owned(),
            component: "cd34".to_owned(),
            rounds: 2,
            cents: 17,
            remark: "reads 3 replies; `x`".to_owned(),
        };
        notes.save(note.clone()).await.expect("saved");
        let failed = MendingNote {
            backend: "other".to_owned(),
            state: MendingState::Failed,
            component: String::new(),
            ..note.clone()
        };
        notes.save(failed.clone()).await.expect("saved");
        let (asked, installed) = (MendingState::Asked, MendingState::Installed);
        let decide = |component| notes.advance(("mini", component), asked, installed);
        assert!(!decide("other").await.expect("read"), "another version");
        assert!(decide("cd34").await.expect("saved"));
        assert!(!decide("cd34").await.expect("read"), "the second time");
        let again = open();
        let installed = MendingNote { state: MendingState::Installed, ..note };
        assert_eq!(again.all(), [installed, failed]);
    }
}
