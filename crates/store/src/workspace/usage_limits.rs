//! `state/limits.md`: the lanes that wait until an allowance of an agent's account is renewed, so
//! that they still wait after a restart.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};
use aetheel_model::event::Lane;

const HEADING: &str = "# Usage limits

Lanes that wait until an allowance of their agent's account is renewed: lane, backend, model, time of the renewal, number of the
attempt, its turn, and the allowance. If you remove a line, the lane tries again after the next start. See docs/limits.md.

";
/// Stands for a model or an allowance that is not named.
const UNNAMED: &str = "-";

/// A lane that waits until an allowance is renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitNote {
    /// The lane.
    pub lane: Lane,
    /// The name of the backend whose agent reported the limit.
    pub backend: String,
    /// The model of the turn, or `None` for the agent's default. Other models may have another
    /// allowance.
    pub model: Option<String>,
    /// When the lane continues.
    pub until: Timestamp,
    /// How many turns in a row reached the limit.
    pub attempt: u32,
    /// The id of the last of these turns.
    pub turn: String,
    /// The name of the allowance for people, if the agent named it.
    pub allowance: Option<String>,
}

/// The notes about usage limits. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct LimitNotes(Arc<Mutex<LedgerFile<LimitNote>>>);

impl Workspace {
    /// Returns the lanes that wait until an allowance is renewed.
    #[must_use]
    pub fn limit_notes(&self) -> &LimitNotes {
        &self.limits
    }
}

impl LimitNotes {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?))))
    }

    /// Returns the note of a lane, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn of(&self, lane: &Lane) -> Option<LimitNote> {
        self.0.lock().entries.get(lane).cloned()
    }

    /// Returns the notes of all lanes, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn all(&self) -> Vec<LimitNote> {
        self.0.lock().entries.values().cloned().collect()
    }

    /// Saves a note in place of the lane's previous one.
    ///
    /// # Errors
    /// [`FileError`]; the note is in force until the process ends.
    pub async fn save(&self, note: LimitNote) -> Result<(), FileError> {
        self.change(move |ledger| drop(ledger.entries.insert(note.lane.clone(), note))).await
    }

    /// Removes the note of a lane.
    ///
    /// # Errors
    /// [`FileError`]; the note is no longer in force until the process ends.
    pub async fn remove(&self, lane: Lane) -> Result<(), FileError> {
        self.change(move |ledger| drop(ledger.entries.remove(&lane))).await
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut LedgerFile<LimitNote>) + Send + 'static,
    ) -> Result<(), FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            let read = ledger.refresh();
            // The change is in force even if the disk is full.
            change(&mut ledger);
            read?;
            ledger.save()
        })
        .await
    }
}

impl LedgerEntry for LimitNote {
    type Key = Lane;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        Some(parse(tokens))
    }

    fn key(&self) -> Lane {
        self.lane.clone()
    }

    fn write(&self) -> String {
        let Self { lane, backend, model, until, attempt, turn, allowance } = self;
        format!(
            "{} backend {} model {} until {} attempt {attempt} turn {} allowance {}",
            code(&lane.to_string()),
            code(backend),
            code(model.as_deref().unwrap_or(UNNAMED)),
            code(&until.to_string()),
            code(turn),
            code(allowance.as_deref().unwrap_or(UNNAMED))
        )
    }
}

fn parse(tokens: &[Token]) -> Result<LimitNote, EntryError> {
    let [
        Token::Code(lane),
        Token::Word(backend_word),
        Token::Code(backend),
        Token::Word(model_word),
        Token::Code(model),
        Token::Word(until_word),
        Token::Code(until),
        Token::Word(attempt_word),
        Token::Word(attempt),
        Token::Word(turn_word),
        Token::Code(turn),
        Token::Word(allowance_word),
        Token::Code(allowance),
    ] = tokens
    else {
        return Err(WRONG);
    };
    let words = [backend_word, model_word, until_word, attempt_word, turn_word, allowance_word];
    if words.iter().map(|word| word.as_str()).ne([
        "backend",
        "model",
        "until",
        "attempt",
        "turn",
        "allowance",
    ]) {
        return Err(WRONG);
    }
    let named = |text: &String| Some(text.clone()).filter(|text| text != UNNAMED);
    Ok(LimitNote {
        lane: lane.parse()?,
        backend: backend.clone(),
        model: named(model),
        until: until.parse().map_err(EntryError::InvalidTime)?,
        turn: turn.clone(),
        attempt: attempt.parse().map_err(|_| EntryError::value(attempt, "a number"))?,
        allowance: named(allowance),
    })
}

const WRONG: EntryError = EntryError::Parts(
    "it does not have a lane, a backend, a model, a time, an attempt, a turn and an allowance",
);

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::id::ChannelId;

    fn note(channel: u64, model: Option<&str>) -> LimitNote {
        LimitNote {
            lane: Lane::Channel(ChannelId::discord(channel)),
            backend: "mini".to_owned(),
            model: model.map(str::to_owned),
            until: "2026-11-26T14:05:00Z".parse().expect("a time"),
            attempt: 2,
            turn: "1f0c9a2e".to_owned(),
            allowance: model.map(|_| "5 hours, `all` models".to_owned()),
        }
    }

    #[tokio::test]
    async fn notes_survive_a_restart_and_invalid_ones_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("limits.md");
        let notes = LimitNotes::open(&path).expect("opened");
        let (one, two) = (note(1, None), note(2, Some("big/model")));
        for note in [&one, &two] {
            notes.save(note.clone()).await.expect("saved");
        }
        let text = std::fs::read_to_string(&path).expect("read") + "- `channel:3` for ever.\n";
        std::fs::write(&path, text).expect("written");
        let again = LimitNotes::open(&path).expect("opened");
        assert_eq!((again.of(&one.lane), again.of(&two.lane)), (Some(one.clone()), Some(two)));
        again.remove(one.lane.clone()).await.expect("removed");
        assert_eq!(LimitNotes::open(&path).expect("opened").of(&one.lane), None);
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains("- `channel:3` for ever."), "{text}");
    }
}
