//! `state/mending.md`: the changes of backends that agents made to read lost replies, so that the
//! decision about each survives a restart. The component of a change and its difference are in
//! `state/mended/`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};

const HEADING: &str = "# Mended backends

The last attempt to mend each backend: its state, the version that lost replies, the changed version, rounds of the agent, cost in
cents, and a remark. See docs/mending.md. If you remove a line, the gateway may mend that backend again.

";

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

/// The attempts to mend backends. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct MendingNotes {
    ledger: Arc<Mutex<LedgerFile<MendingNote>>>,
    folder: PathBuf,
}

impl Workspace {
    /// Returns the attempts to mend backends.
    #[must_use]
    pub fn mending_notes(&self) -> &MendingNotes {
        &self.mending
    }
}

impl MendingNotes {
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        let ledger = LedgerFile::open(&state.join("mending.md"), HEADING)?;
        Ok(Self { ledger: Arc::new(Mutex::new(ledger)), folder: state.join("mended") })
    }

    /// Returns the file of a backend's changed component.
    #[must_use]
    pub fn component_file(&self, backend: &str) -> PathBuf {
        self.folder.join(format!("{backend}.wasm"))
    }

    /// Returns the file with the difference of a backend's sources.
    #[must_use]
    pub fn difference_file(&self, backend: &str) -> PathBuf {
        self.folder.join(format!("{backend}.diff"))
    }

    /// Reads the file again if another program changed it, and returns all attempts.
    pub async fn all(&self) -> Vec<MendingNote> {
        let notes = self.clone();
        let read = move || {
            let mut ledger = notes.ledger.lock();
            // The entries that were read before are used if it cannot be read now.
            let _ = ledger.refresh();
            ledger.entries.values().cloned().collect()
        };
        blocking(read).await
    }

    /// Saves an attempt in place of the backend's previous one.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn save(&self, note: MendingNote) -> Result<(), FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.ledger.lock();
            ledger.refresh()?;
            ledger.entries.insert(note.backend.clone(), note);
            ledger.save()
        })
        .await
    }

    /// Changes the state of an attempt if it is `from` and the changed version is `component`.
    /// Returns whether it was, so that a decision has one effect.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn advance(
        &self,
        (backend, component): (&str, &str),
        from: MendingState,
        to: MendingState,
    ) -> Result<bool, FileError> {
        let (notes, backend, component) = (self.clone(), backend.to_owned(), component.to_owned());
        blocking(move || {
            let mut ledger = notes.ledger.lock();
            ledger.refresh()?;
            let note = ledger.entries.get_mut(&backend);
            let Some(note) = note.filter(|it| it.state == from && it.component == component) else {
                return Ok(false);
            };
            note.state = to;
            if let Err(error) = ledger.save() {
                // Otherwise a second press would find the decision made although it is not saved.
                if let Some(note) = ledger.entries.get_mut(&backend) {
                    note.state = from;
                }
                return Err(error);
            }
            Ok(true)
        })
        .await
    }
}

impl LedgerEntry for MendingNote {
    type Key = String;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        Some(parse(tokens))
    }

    fn key(&self) -> String {
        self.backend.clone()
    }

    fn write(&self) -> String {
        let Self { backend, state, serving, component, rounds, cents, remark } = self;
        let [backend, serving, component, remark] =
            [backend, serving, component, remark].map(|text| code(text));
        let state = state.word();
        format!(
            "{backend} {state}: from {serving} to {component}, {rounds} rounds, {cents} cents, {remark}"
        )
    }
}

fn parse(tokens: &[Token]) -> Result<MendingNote, EntryError> {
    let [
        Token::Code(backend),
        Token::Word(state),
        Token::Word(_),
        Token::Code(serving),
        Token::Word(_),
        Token::Code(component),
        Token::Word(rounds),
        Token::Word(_),
        Token::Word(cents),
        Token::Word(_),
        Token::Code(remark),
    ] = tokens
    else {
        return Err(EntryError::Parts(
            "it does not have a backend, a state, two components, two numbers, and a remark",
        ));
    };
    let number = |text: &str| text.parse().map_err(|_| EntryError::value(text, "a number"));
    let state = MendingState::ALL.into_iter().find(|known| known.word() == state);
    Ok(MendingNote {
        backend: backend.clone(),
        state: state.ok_or_else(|| EntryError::Parts("its state is not known"))?,
        serving: serving.clone(),
        component: component.clone(),
        rounds: number(rounds)?,
        cents: number(cents)?,
        remark: remark.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_decision_is_made_once_and_survives_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = MendingNotes::open(folder.path()).expect("opened");
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
        let again = MendingNotes::open(folder.path()).expect("opened");
        let installed = MendingNote { state: MendingState::Installed, ..note };
        assert_eq!(again.all().await, [installed, failed]);
    }
}
