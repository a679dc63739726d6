//! `state/rollouts.md`: the rollouts of new versions of backends, so that they continue after a
//! restart and other programs can read their results.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};

/// Maximum number of differences that are kept for each rollout.
pub const MAX_NOTED_DIFFERENCES: usize = 20;

const HEADING: &str = "# Rollouts

New versions of backends on rollout: backend, component, state, number of turns that were compared, skipped, different and served,
and the first differences, each with its turn, recording and line. See docs/backends.md. If you remove a line, its rollout begins again.

";

const HISTORY_HEADING: &str = "# Rollouts that have ended

When each rollout ended, how, the version of the backend, and its last line in `rollouts.md`. `aetheel backend history` shows them.

";

/// Maximum number of rollouts that are kept after their end. The oldest are removed first.
const MAX_ENDED: usize = 100;

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

/// The notes about rollouts, and about those that have ended. Cheap to clone; clones share
/// everything.
#[derive(Clone, Debug)]
pub struct RolloutNotes {
    running: Arc<Mutex<LedgerFile<RolloutNote>>>,
    ended: Arc<Mutex<LedgerFile<EndedRollout>>>,
}

impl Workspace {
    /// Returns the notes about rollouts of new versions of backends.
    #[must_use]
    pub fn rollout_notes(&self) -> &RolloutNotes {
        &self.rollouts
    }
}

impl RolloutNotes {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let ended = path.with_file_name("rollout-history.md");
        Ok(Self {
            running: Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?)),
            ended: Arc::new(Mutex::new(LedgerFile::open(&ended, HISTORY_HEADING)?)),
        })
    }

    /// Reads the rollouts that have ended, the oldest first, without changing anything. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be read.
    pub fn read_ended(folder: &Path) -> Result<Vec<EndedRollout>, FileError> {
        let notes = Self::open(&folder.join("state").join("rollouts.md"))?;
        let ended = notes.ended.lock();
        Ok(ended.entries.values().cloned().collect())
    }

    /// Reads the notes in a configuration folder without changing anything. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub fn read_folder(folder: &Path) -> Result<Vec<RolloutNote>, FileError> {
        Ok(Self::open(&folder.join("state").join("rollouts.md"))?.all())
    }

    /// Returns the notes as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn all(&self) -> Vec<RolloutNote> {
        self.running.lock().entries.values().cloned().collect()
    }

    /// Saves a note in place of the backend's previous one.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn save(&self, note: RolloutNote) -> Result<(), FileError> {
        self.change(move |ledger| drop(ledger.entries.insert(note.backend.clone(), note))).await
    }

    /// Moves a note to those of rollouts that have ended, also if it was not saved before.
    ///
    /// # Errors
    /// [`FileError`]; a saved note is then still there.
    pub async fn end(
        &self,
        note: RolloutNote,
        end: RolloutEnd,
        at: Timestamp,
    ) -> Result<(), FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut running = notes.running.lock();
            running.refresh()?;
            running.entries.remove(&note.backend);
            let mut ended = notes.ended.lock();
            ended.refresh()?;
            let note = EndedRollout { at, end, note };
            ended.entries.insert(note.key(), note);
            while ended.entries.len() > MAX_ENDED {
                ended.entries.pop_first();
            }
            ended.save()?;
            running.save()
        })
        .await
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut LedgerFile<RolloutNote>) + Send + 'static,
    ) -> Result<(), FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.running.lock();
            ledger.refresh()?;
            change(&mut ledger);
            ledger.save()
        })
        .await
    }
}

impl LedgerEntry for RolloutNote {
    type Key = String;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        Some(parse(tokens))
    }

    fn key(&self) -> String {
        self.backend.clone()
    }

    fn write(&self) -> String {
        let Self { backend, digest, state, compared, skipped, different, served, differences } =
            self;
        let (backend, digest) = (code(backend), code(digest));
        let mut text = format!(
            "{backend} component {digest} {}: {compared} compared, {skipped} skipped, {different} different, {served} served",
            state.word()
        );
        for NotedDifference { turn, recording, line, harmful, text: what } in differences {
            let (turn, recording, what) = (code(turn), code(recording), code(what));
            let word = if *harmful { HARMFUL } else { HARMLESS };
            text.push_str(&format!(
                "; turn {turn} recording {recording} line {line} {word} {what}"
            ));
        }
        text
    }
}

impl LedgerEntry for EndedRollout {
    type Key = (Timestamp, String);

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        const WRONG: EntryError =
            EntryError::Parts("it does not have a time, an end, and the note of a rollout");
        let [Token::Code(at), Token::Word(end), rest @ ..] = tokens else {
            return Some(Err(WRONG));
        };
        let ends = [RolloutEnd::Promoted, RolloutEnd::Withdrawn];
        let Some(end) = ends.into_iter().find(|known| known.word() == end.as_str()) else {
            return Some(Err(EntryError::value(end, "`promoted` or `withdrawn`")));
        };
        let Ok(at) = at.parse() else { return Some(Err(EntryError::value(at, "a time"))) };
        Some(parse(rest).map(|note| Self { at, end, note }))
    }

    fn key(&self) -> (Timestamp, String) {
        (self.at, self.note.backend.clone())
    }

    fn write(&self) -> String {
        let Self { at, end, note } = self;
        format!("{} {} {}", code(&at.to_string()), end.word(), note.write())
    }
}

const HARMFUL: &str = "harmful";
const HARMLESS: &str = "harmless";

fn parse(tokens: &[Token]) -> Result<RolloutNote, EntryError> {
    const WRONG: EntryError = EntryError::Parts(
        "it does not have a backend, a component, a state, four numbers, and differences",
    );
    let parts: Vec<(bool, &str)> = tokens
        .iter()
        .map(|token| match token {
            Token::Code(text) => (true, text.as_str()),
            Token::Word(word) => (false, word.as_str()),
        })
        .collect();
    let [
        (true, backend),
        (false, "component"),
        (true, digest),
        (false, state),
        (false, compared),
        (false, "compared"),
        (false, skipped),
        (false, "skipped"),
        (false, different),
        (false, "different"),
        (false, served),
        (false, "served"),
        rest @ ..,
    ] = &parts[..]
    else {
        return Err(WRONG);
    };
    let number = |text: &str| text.parse().map_err(|_| EntryError::value(text, "a number"));
    let states = [RolloutState::Running, RolloutState::Stopped];
    let mut note = RolloutNote {
        state: states
            .into_iter()
            .find(|known| known.word() == *state)
            .ok_or_else(|| EntryError::value(state, "`running` or `stopped`"))?,
        compared: number(compared)?,
        skipped: number(skipped)?,
        different: number(different)?,
        served: number(served)?,
        ..RolloutNote::new(backend, digest)
    };
    for difference in rest.chunks(8) {
        let [
            (false, "turn"),
            (true, turn),
            (false, "recording"),
            (true, recording),
            (false, "line"),
            (false, line),
            (false, word @ (HARMFUL | HARMLESS)),
            (true, text),
        ] = difference
        else {
            return Err(WRONG);
        };
        note.differences.push(NotedDifference {
            turn: (*turn).to_owned(),
            recording: (*recording).to_owned(),
            line: line.parse().map_err(|_| EntryError::value(line, "the number of a line"))?,
            harmful: *word == HARMFUL,
            text: (*text).to_owned(),
        });
    }
    Ok(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notes_survive_a_restart_and_invalid_ones_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("state")).expect("made");
        let path = folder.path().join("state/rollouts.md");
        assert_eq!(RolloutNotes::read_folder(folder.path()).expect("read"), []);
        let notes = RolloutNotes::open(&path).expect("opened");
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
        let read = RolloutNotes::read_folder(folder.path()).expect("read");
        assert_eq!(read, [note.clone(), RolloutNote::new("other", "cd34")]);
        let at: Timestamp = "2026-11-28T20:00:00Z".parse().expect("a time");
        notes.end(note, RolloutEnd::Withdrawn, at).await.expect("ended");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(!text.contains("mini") && text.contains("- `third`"), "{text}");
        let ended = RolloutNotes::read_ended(folder.path()).expect("read");
        assert_eq!(ended, [EndedRollout { at, end: RolloutEnd::Withdrawn, note: read[0].clone() }]);
    }
}
