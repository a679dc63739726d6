//! `state/rollouts.md`: the rollouts of new versions of backends, so that they continue after a
//! restart and other programs can read their results. `state/rollout-history.md`: those that have
//! ended.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::state_file::{EntryError, LineForm, StateEntry, Token};

/// Maximum number of differences that are kept for each rollout.
pub const MAX_NOTED_DIFFERENCES: usize = 20;
/// Maximum number of rollouts that are kept after their end. The oldest are removed first.
const MAX_ENDED: usize = 100;

const FAULT: &str =
    "it does not have a backend, a component, a state, four numbers, and differences";
const FORM: LineForm =
    LineForm::new("{} component {} #: # compared, # skipped, # different, # served", FAULT);
const DIFFERENCE: LineForm = LineForm::new("; turn {} recording {} line # # {}", FAULT);
const ENDED: LineForm =
    LineForm::new("{} # ", "it does not have a time, an end, and the note of a rollout");
const HARMFUL: &str = "harmful";
const HARMLESS: &str = "harmless";

/// The state of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// Turns are compared.
    Running,
    /// A harmful difference was found. The version serves nobody unless the operator promotes it.
    Stopped,
}

impl RolloutState {
    /// Returns `running` or `stopped`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }
}

/// The rollout of a new version of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutNote {
    /// The name of the component.
    pub backend: String,
    /// SHA-256 of the new version, lower-case hex.
    pub digest: String,
    /// The state.
    pub state: RolloutState,
    /// The number of turns that were compared.
    pub compared: u64,
    /// The number of turns that were not compared.
    pub skipped: u64,
    /// The number of compared turns with differences.
    pub different: u64,
    /// The number of compared turns that the new version served.
    pub served: u64,
    /// The first differences.
    pub differences: Vec<NotedDifference>,
}

/// A difference between the serving version and the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedDifference {
    /// The id of the turn.
    pub turn: String,
    /// The id of the recording.
    pub recording: String,
    /// The line of the recording.
    pub line: usize,
    /// Whether it stopped the rollout.
    pub harmful: bool,
    /// Its description, without secrets.
    pub text: String,
}

impl RolloutNote {
    /// Creates the note of a rollout that begins.
    #[must_use]
    pub fn new(backend: &str, digest: &str) -> Self {
        Self {
            backend: backend.to_owned(),
            digest: digest.to_owned(),
            state: RolloutState::Running,
            compared: 0,
            skipped: 0,
            different: 0,
            served: 0,
            differences: Vec::new(),
        }
    }
}

/// How a rollout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutEnd {
    /// The new version serves.
    Promoted,
    /// The new version was withdrawn, or another one took its place.
    Withdrawn,
}

impl RolloutEnd {
    /// Returns `promoted` or `withdrawn`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// A rollout that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRollout {
    /// When it ended.
    pub at: Timestamp,
    /// How it ended.
    pub end: RolloutEnd,
    /// Its last note.
    pub note: RolloutNote,
}

impl StateEntry for RolloutNote {
    type Key = String;
    const FILE: &str = "rollouts.md";
    const HEADING: &str = "# Rollouts

New versions of backends on rollout: backend, component, state, number of turns that were compared, skipped, different and served,
and the first differences, each with its turn, recording and line. See docs/backends.md. If you remove a line, its rollout begins again.

";

    fn key(&self) -> String {
        self.backend.clone()
    }

    fn write(&self) -> String {
        let Self { backend, digest, state, compared, skipped, different, served, differences } =
            self;
        let state = state.word().to_owned();
        let values = FORM.write(&[backend, digest, &state, compared, skipped, different, served]);
        differences.iter().fold(values, |text, difference| {
            let NotedDifference { turn, recording, line, harmful, text: what } = difference;
            let harm = if *harmful { HARMFUL } else { HARMLESS }.to_owned();
            text + &DIFFERENCE.write(&[turn, recording, line, &harm, what])
        })
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let ([backend, digest, state, compared, skipped, different, served], mut rest) =
            FORM.begin(tokens)?;
        let state = [RolloutState::Running, RolloutState::Stopped]
            .into_iter()
            .find(|known| known.word() == state.text())
            .ok_or_else(|| EntryError::value(state.text(), "`running` or `stopped`"))?;
        let (compared, skipped) = (compared.read()?, skipped.read()?);
        let (different, served) = (different.read()?, served.read()?);
        let mut differences = Vec::new();
        while !rest.is_empty() {
            let ([turn, recording, line, harm, text], after) = DIFFERENCE.begin(rest)?;
            rest = after;
            let harmful = match harm.text() {
                HARMFUL => true,
                HARMLESS => false,
                _ => return Err(EntryError::Parts(FAULT)),
            };
            differences.push(NotedDifference {
                turn: turn.read()?,
                recording: recording.read()?,
                line: line.parse("the number of a line")?,
                harmful,
                text: text.read()?,
            });
        }
        let (backend, digest) = (backend.read()?, digest.read()?);
        Ok(Self { backend, digest, state, compared, skipped, different, served, differences })
    }
}

impl StateEntry for EndedRollout {
    type Key = (Timestamp, String);
    const FILE: &str = "rollout-history.md";
    const HEADING: &str = "# Rollouts that have ended

When each rollout ended, how, the version of the backend, and its last line in `rollouts.md`. `aetheel backend history` shows them.

";

    fn key(&self) -> (Timestamp, String) {
        (self.at, self.note.backend.clone())
    }

    fn write(&self) -> String {
        let Self { at, end, note } = self;
        ENDED.write(&[at, &end.word().to_owned()]) + &note.write()
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let ([at, end], note) = ENDED.begin(tokens)?;
        let ends = [RolloutEnd::Promoted, RolloutEnd::Withdrawn];
        let known = ends.into_iter().find(|known| known.word() == end.text());
        let end =
            known.ok_or_else(|| EntryError::value(end.text(), "`promoted` or `withdrawn`"))?;
        Ok(Self { at: at.parse_quoted("a time")?, end, note: RolloutNote::parse(note)? })
    }

    fn trim(entries: &mut BTreeMap<Self::Key, Self>) {
        while entries.len() > MAX_ENDED {
            entries.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{StateFile, WorkspaceState};

    #[tokio::test]
    async fn notes_survive_a_restart_and_invalid_ones_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        std::fs::create_dir(&state).expect("made");
        let path = state.join("rollouts.md");
        let read = || StateFile::<RolloutNote>::read_folder(folder.path()).expect("read");
        assert_eq!(read(), []);
        let files = WorkspaceState::open(&state).expect("opened");
        let notes = &files.rollouts;
        let first = NotedDifference {
            turn: "5e0d11aa".to_owned(),
            recording: "1f0c9a2e".to_owned(),
            line: 14,
            harmful: true,
            text: "answer: `a; b` instead of \"c\"".to_owned(),
        };
        let second = NotedDifference { harmful: false, ..first.clone() };
        let note = RolloutNote {
            state: RolloutState::Stopped,
            compared: 3,
            skipped: 2,
            different: 1,
            served: 1,
            differences: vec![first, second],
            ..RolloutNote::new("mini", "ab12")
        };
        notes.save(RolloutNote::new("mini", "older")).await.expect("saved");
        notes.save(note.clone()).await.expect("saved");
        notes.save(RolloutNote::new("other", "cd34")).await.expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(
            text.contains(
                "- `other` component `cd34` running: 0 compared, 0 skipped, 0 different, 0 served.\n"
            ),
            "{text}"
        );
        std::fs::write(&path, text + "- `third` component `ef`.\n").expect("written");
        let read = read();
        assert_eq!(read, [note.clone(), RolloutNote::new("other", "cd34")]);
        let at: Timestamp = "2026-11-28T20:00:00Z".parse().expect("a time");
        files.end_rollout(note, RolloutEnd::Withdrawn, at).await.expect("ended");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(!text.contains("mini") && text.contains("- `third`"), "{text}");
        let ended = StateFile::<EndedRollout>::read_folder(folder.path()).expect("read");
        assert_eq!(ended, [EndedRollout { at, end: RolloutEnd::Withdrawn, note: read[0].clone() }]);
    }
}
