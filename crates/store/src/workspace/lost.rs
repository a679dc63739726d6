//! `state/lost.md` lists the turns whose answer could not be parsed, with their state. In
//! `state/recover-request`, another program asks the gateway to deliver some of them.
//!
//! An entry is removed together with its recording. The dispatcher decides what happens with a
//! turn. Tested below.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::blocking::blocking;
use super::state_file::{EntryError, LineForm, StateEntry, StateFile, Token, code};
use super::{DOCUMENT_LIMIT, FileError};
use crate::disk::{replace, text_of};
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, MessageId, UserId};
use aetheel_runtime::ordinary::read_ordinary;

/// Maximum number of turns that are kept. The oldest are removed first, beginning with those that
/// are delivered or given up.
const MAX_TURNS: usize = 1_000;

/// The state of a lost turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LostState {
    /// No backend could read it so far.
    Lost,
    /// A newer backend can read it; it is not delivered yet.
    Readable,
    /// Its reply was delivered.
    Delivered,
    /// It will not be delivered.
    GivenUp,
}

impl LostState {
    /// Returns the word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Readable => "readable",
            Self::Delivered => "delivered",
            Self::GivenUp => "given-up",
        }
    }

    /// Returns whether its reply may still be delivered.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Lost | Self::Readable)
    }
}

/// A turn whose answer could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTurn {
    /// Its correlation id, as in the log.
    pub turn: String,
    /// The progress of its recovery.
    pub state: LostState,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// The lane of its event.
    pub lane: Lane,
    /// The event's sequence number.
    pub event: u64,
    /// The channel for the reply, or `None` for the operator's channel or the terminal.
    pub channel: Option<ChannelId>,
    /// The message that the reply answers.
    pub message: Option<MessageId>,
    /// The user who asked.
    pub asker: Option<UserId>,
    /// The message that reported the failure and has the button.
    pub notice: Option<MessageId>,
    /// Name of the backend.
    pub backend: String,
    /// The agent's version, if it is known.
    pub agent_version: Option<String>,
    /// SHA-256 of the component that could not read it.
    pub digest: String,
    /// SHA-256 of the last component that was tried since.
    pub tried: Option<String>,
    /// The session that it continued.
    pub session: Option<String>,
    /// The path of its recording below the folder of recordings.
    pub recording: PathBuf,
}

impl LostTurn {
    /// Returns the key of the event that delivers it.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{KEY}{}", self.turn)
    }

    /// Returns how many replies of a backend are lost, and how many are readable but not delivered.
    #[must_use]
    pub fn count(turns: &[Self], backend: &str) -> (usize, usize) {
        let of = |state| {
            turns.iter().filter(|turn| turn.backend == backend && turn.state == state).count()
        };
        (of(LostState::Lost), of(LostState::Readable))
    }

    /// Returns the turn that the event with this key delivers, or `None` if it delivers none.
    #[must_use]
    pub fn of_key(key: Option<&str>) -> Option<&str> {
        key?.strip_prefix(KEY)
    }
}

const KEY: &str = "recovered:";

/// The lost turns. Cheap to clone; clones share everything. Every call first reads the file again
/// if another program changed it.
#[derive(Clone, Debug)]
pub struct LostTurns {
    file: StateFile<LostTurn>,
    request: PathBuf,
}

impl LostTurns {
    /// Reads the file; a missing file is empty. Blocks.
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        Ok(Self { file: StateFile::open(state)?, request: state.join("recover-request") })
    }

    /// Returns all turns, oldest first.
    pub async fn all(&self) -> Vec<LostTurn> {
        let mut all = self.file.read().await;
        all.sort_by(|a, b| (a.at_ms, &a.turn).cmp(&(b.at_ms, &b.turn)));
        all
    }

    /// Returns the turn with this id.
    pub async fn get(&self, turn: &str) -> Option<LostTurn> {
        let turn = turn.to_owned();
        self.file.look(move |file| file.entries.get(&turn).cloned()).await
    }

    /// Saves a turn and returns once that is on disk.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written. The turn is remembered until the program ends.
    pub async fn note(&self, turn: LostTurn) -> Result<(), FileError> {
        self.file.save(turn).await
    }

    /// Sets the state of a turn and the component that was tried, and returns once that is on disk.
    /// Does nothing for an unknown turn.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written. The state is remembered until the program ends.
    pub async fn mark(
        &self,
        turn: &str,
        state: LostState,
        tried: Option<&str>,
    ) -> Result<(), FileError> {
        let tried = tried.map(str::to_owned);
        self.change(turn, move |entry| {
            entry.state = state;
            entry.tried = tried.or(entry.tried.take());
        })
        .await
    }

    /// Does the same as [`LostTurns::mark`], unless the turn was delivered or given up meanwhile.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written. The state is remembered until the program ends.
    pub async fn mark_open(
        &self,
        turn: &str,
        state: LostState,
        tried: &str,
    ) -> Result<(), FileError> {
        let tried = tried.to_owned();
        self.change(turn, move |entry| {
            if entry.state.is_open() {
                (entry.state, entry.tried) = (state, Some(tried));
            }
        })
        .await
    }

    /// Sets the message that reported a turn's failure.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or written.
    pub async fn set_notice(&self, turn: &str, message: MessageId) -> Result<(), FileError> {
        self.change(turn, move |entry| entry.notice = Some(message)).await
    }

    /// Forgets the turns whose recording no longer exists. Returns how many there were.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or written.
    pub async fn forget_without_recording(&self, recordings: &Path) -> Result<usize, FileError> {
        let recordings = recordings.to_owned();
        let gone = self.file.find(move |turn| !recordings.join(&turn.recording).exists()).await;
        let count = gone.len();
        if count > 0 {
            let forget = move |entries: &mut BTreeMap<String, LostTurn>| {
                entries.retain(|turn, _| !gone.iter().any(|gone| gone.turn == *turn));
            };
            self.file.change(forget).await?;
        }
        Ok(count)
    }

    /// Returns the turns that another program asked to deliver, or `None` if there is no request.
    pub async fn requested(&self) -> Option<Vec<String>> {
        let request = self.request.clone();
        blocking(move || {
            let text = read_ordinary(&request, DOCUMENT_LIMIT).and_then(text_of).ok()?;
            Some(
                text.lines()
                    .map(|line| line.trim().trim_start_matches("- ").trim_matches('`').to_owned())
                    .filter(|id| is_id(id))
                    .collect(),
            )
        })
        .await
    }

    /// Asks the running gateway, or the next one to start, to deliver turns.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or written.
    pub async fn request(&self, turns: &[String]) -> Result<(), FileError> {
        let request = self.request.clone();
        let text: String = turns.iter().map(|turn| format!("- {}\n", code(turn))).collect();
        blocking(move || {
            replace(&request, text.as_bytes())
                .map(drop)
                .map_err(|source| FileError::new("write", &request, source))
        })
        .await
    }

    /// Removes the request after it was carried out.
    ///
    /// # Errors
    /// [`FileError`] if the request cannot be removed. It is then carried out again, which delivers
    /// nothing twice.
    pub async fn request_done(&self) -> Result<(), FileError> {
        let request = self.request.clone();
        blocking(move || match fs::remove_file(&request) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::new("remove", &request, error))
            }
            _ => Ok(()),
        })
        .await
    }

    /// Changes a turn. Does nothing if it is unknown.
    async fn change(
        &self,
        turn: &str,
        change: impl FnOnce(&mut LostTurn) + Send + 'static,
    ) -> Result<(), FileError> {
        let turn = turn.to_owned();
        self.file.change(move |entries| entries.get_mut(&turn).map_or((), change)).await
    }
}

fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

const FORM: LineForm = LineForm::new("{} # at {} in {}", "");

impl StateEntry for LostTurn {
    type Key = String;
    const FILE: &str = "lost.md";
    const HEADING: &str = "# Lost replies

Turns whose answer could not be read, with the recording of the agent's output. Each is `lost` until a newer backend can read
it, then `readable`, then `delivered`; `given-up` is not tried any more. Aetheel reads this file again whenever it changes:
write `lost` to have a turn tried again, or remove a line to forget it.

";

    fn key(&self) -> String {
        self.turn.clone()
    }

    fn write(&self) -> String {
        let at = jiff::Timestamp::from_millisecond(self.at_ms).unwrap_or_default();
        let state = self.state.word().to_owned();
        let mut line = FORM.write(&[&self.turn, &state, &at, &self.lane]);
        let optional = [
            ("event", Some(self.event.to_string())),
            ("channel", self.channel.map(|id| id.to_string())),
            ("message", self.message.map(|id| id.to_string())),
            ("asker", self.asker.map(|id| id.to_string())),
            ("told", self.notice.map(|id| id.to_string())),
            ("backend", Some(self.backend.clone())),
            ("agent", self.agent_version.clone()),
            ("generation", Some(self.digest.clone())),
            ("tried", self.tried.clone()),
            ("session", self.session.clone()),
            ("recording", Some(self.recording.to_string_lossy().into_owned())),
        ];
        for (word, value) in optional {
            if let Some(value) = value {
                line.push_str(&format!(" {word} {}", code(&value)));
            }
        }
        line
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let [Token::Code(turn), Token::Word(state), rest @ ..] = tokens else {
            return Err(EntryError::OtherKind);
        };
        if !is_id(turn) {
            return Err(EntryError::code(turn, "the id of a turn"));
        }
        let state =
            [LostState::Lost, LostState::Readable, LostState::Delivered, LostState::GivenUp]
                .into_iter()
                .find(|it| it.word() == state);
        let state = state.ok_or(EntryError::Parts(
            "the id of the turn must be followed by `lost`, `readable`, `delivered` or `given-up`",
        ))?;
        let after = |word: &str| {
            let at = rest.iter().position(|token| *token == Token::Word(word.to_owned()))?;
            if let Some(Token::Code(code)) = rest.get(at + 1) { Some(code.clone()) } else { None }
        };
        let needed = |word: &'static str| after(word).ok_or(EntryError::PartMissing(word));
        let at: jiff::Timestamp = needed("at")?.parse().map_err(EntryError::InvalidTime)?;
        let recording = PathBuf::from(needed("recording")?);
        if !recording.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(EntryError::Parts("its recording is not below the folder of recordings"));
        }
        Ok(Self {
            turn: turn.to_owned(),
            state,
            at_ms: at.as_millisecond(),
            lane: needed("in")?.parse()?,
            event: number(after("event"))?.unwrap_or(0),
            channel: number(after("channel"))?,
            message: number(after("message"))?,
            asker: number(after("asker"))?,
            notice: number(after("told"))?,
            backend: needed("backend")?,
            agent_version: after("agent"),
            digest: needed("generation")?,
            tried: after("tried"),
            session: after("session"),
            recording,
        })
    }

    fn trim(entries: &mut BTreeMap<String, Self>) {
        let mut order: Vec<(bool, i64, String)> = entries
            .values()
            .map(|turn| (turn.state.is_open(), turn.at_ms, turn.turn.clone()))
            .collect();
        order.sort();
        let over = order.len().saturating_sub(MAX_TURNS);
        for (.., turn) in order.into_iter().take(over) {
            entries.remove(&turn);
        }
    }
}

fn number<T: FromStr>(text: Option<String>) -> Result<Option<T>, EntryError> {
    text.map(|text| text.parse().map_err(|_| EntryError::code(&text, "a number"))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::state_file::parse_tokens;

    fn turn(id: &str, at_ms: i64) -> LostTurn {
        LostTurn {
            turn: id.to_owned(),
            state: LostState::Lost,
            at_ms,
            lane: Lane::Channel(ChannelId::discord(5)),
            event: 7,
            channel: Some(ChannelId::discord(5)),
            message: Some(MessageId::discord(70)),
            asker: None,
            notice: Some(MessageId::discord(71)),
            backend: "gemini".to_owned(),
            agent_version: Some("0.61.0 `beta`".to_owned()),
            digest: "ab".repeat(32),
            tried: None,
            session: Some("s-1".to_owned()),
            recording: format!("lost/{id}.jsonl").into(),
        }
    }

    #[tokio::test]
    async fn lost_turns_are_read_back_unchanged_and_with_edits_by_hand() {
        let folder = tempfile::tempdir().expect("a folder");
        let lost = LostTurns::open(folder.path()).expect("opened");
        for (id, at_ms) in [("b", 2_000), ("a", 1_000), ("c", 3_000)] {
            lost.note(turn(id, at_ms)).await.expect("noted");
        }
        lost.mark("b", LostState::Delivered, Some("cd")).await.expect("marked");
        lost.mark("nobody", LostState::Delivered, None).await.expect("nothing to mark");
        lost.mark_open("b", LostState::Readable, "ef").await.expect("it was delivered");
        let again = LostTurns::open(folder.path()).expect("opened");
        let delivered = LostTurn {
            state: LostState::Delivered,
            tried: Some("cd".to_owned()),
            ..turn("b", 2_000)
        };
        assert_eq!(again.all().await, [turn("a", 1_000), delivered, turn("c", 3_000)]);

        let file = folder.path().join("lost.md");
        let text = fs::read_to_string(&file).expect("written");
        let mended: Vec<String> = text
            .lines()
            .filter(|line| !line.contains("`c`"))
            .map(|line| line.replace("delivered", "lost"))
            .collect();
        fs::write(&file, mended.join("\n") + "\n- `x` lost at `2026-01-01T00:00:00Z`\n")
            .expect("mended");
        let known: Vec<(String, LostState)> =
            again.all().await.into_iter().map(|turn| (turn.turn, turn.state)).collect();
        assert_eq!(known, [("a".to_owned(), LostState::Lost), ("b".to_owned(), LostState::Lost)]);
    }

    #[tokio::test]
    async fn an_entry_is_removed_with_its_recording_and_their_number_is_limited() {
        let folder = tempfile::tempdir().expect("a folder");
        let lost = LostTurns::open(folder.path()).expect("opened");
        fs::create_dir(folder.path().join("lost")).expect("made");
        fs::write(folder.path().join("lost/a.jsonl"), "x").expect("written");
        lost.note(turn("a", 1)).await.expect("noted");
        lost.note(turn("b", 2)).await.expect("noted");
        assert_eq!(lost.forget_without_recording(folder.path()).await.expect("looked"), 1);
        assert_eq!(lost.all().await, [turn("a", 1)]);
        {
            let mut ledger = lost.file.lock();
            for number in 0..MAX_TURNS {
                let many = turn(&format!("t{number}"), 10 + number as i64);
                ledger
                    .entries
                    .insert(many.turn.clone(), LostTurn { state: LostState::Delivered, ..many });
            }
            ledger.save().expect("saved");
        }
        lost.note(turn("z", 1_000_000)).await.expect("noted");
        let left = lost.all().await;
        assert_eq!(left.len(), MAX_TURNS);
        assert!(left.iter().any(|turn| turn.turn == "a"), "open turns stay longest");
        assert!(!left.iter().any(|turn| turn.turn == "t0" || turn.turn == "t1"));
    }

    #[test]
    fn a_line_with_a_path_outside_the_folder_or_a_missing_part_is_left_out() {
        let line = format!("- {}", turn("a", 1).write());
        let read =
            |line: &str| LostTurn::parse(&parse_tokens(line).expect("an item").expect("whole"));
        assert_eq!(read(&line).expect("valid"), turn("a", 1));
        for (from, to) in [
            ("lost/a.jsonl", "../a.jsonl"),
            ("lost/a.jsonl", "/etc/passwd"),
            (" lost ", " found "),
            ("channel:5", "x"),
        ] {
            assert!(read(&line.replacen(from, to, 1)).is_err(), "{to} was taken");
        }
    }

    #[tokio::test]
    async fn a_request_is_returned_until_it_is_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let lost = LostTurns::open(folder.path()).expect("opened");
        assert_eq!(lost.requested().await, None);
        lost.request(&["ab12".to_owned(), "cd34".to_owned()]).await.expect("asked");
        assert_eq!(lost.requested().await, Some(vec!["ab12".to_owned(), "cd34".to_owned()]));
        lost.request_done().await.expect("done");
        lost.request_done().await.expect("done already");
        assert_eq!(lost.requested().await, None);
    }
}
