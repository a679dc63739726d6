//! `state/discord.md`: the last message that was handled in each channel, for catching up after an
//! outage, and the messages of open questions, so that a restart can close them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::FileError;
use super::blocking::blocking;
use super::state_file::{EntryError, StateEntry, StateFile, Token, code, line_of, parse_tokens};
use aetheel_model::id::{ChannelId, MessageId};

const MAX_LOGINS: usize = 32;

/// The notes about Discord. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct DiscordNotes {
    /// The changes since the file was last written. Never locked while the file is written.
    noted: Arc<Mutex<NotedChanges>>,
    file: StateFile<DiscordNote>,
}

/// Changed entries; `None` removes an entry.
type NotedChanges = HashMap<DiscordNoteKey, Option<DiscordNote>>;

/// The channels and questions in some lines of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelNotes {
    /// Channels, each with the last message that was handled.
    pub channels: Vec<(ChannelId, MessageId)>,
    /// Open questions, each with channel and message.
    pub questions: Vec<(String, ChannelId, MessageId)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum DiscordNoteKey {
    Channel(ChannelId),
    Question(String),
    Login(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum DiscordNote {
    /// The last message that was handled in a channel.
    Seen { channel: ChannelId, message: MessageId },
    /// The message of an open question.
    Question { id: String, channel: ChannelId, message: MessageId },
    /// The time of a login, in milliseconds since 1970.
    Login(i64),
}

impl DiscordNotes {
    /// Reads the file; a missing file is empty.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        Ok(Self { noted: Arc::default(), file: StateFile::open(state)? })
    }

    /// Notes that a message was handled, in memory only. A message older than the one noted since
    /// the last save changes nothing.
    pub fn note_seen(&self, channel: ChannelId, message: MessageId) {
        let mut noted = self.noted.lock();
        let last = match noted.get(&DiscordNoteKey::Channel(channel)) {
            Some(Some(DiscordNote::Seen { message: last, .. })) => message.max(*last),
            _ => message,
        };
        noted.insert(
            DiscordNoteKey::Channel(channel),
            Some(DiscordNote::Seen { channel, message: last }),
        );
    }

    /// Notes a login, in memory only. Only the latest logins are saved.
    pub fn note_login(&self, at_ms: i64) {
        self.noted.lock().insert(DiscordNoteKey::Login(at_ms), Some(DiscordNote::Login(at_ms)));
    }

    /// Returns the latest logins, oldest first, including unsaved ones.
    pub async fn logins(&self) -> Vec<i64> {
        self.items()
            .await
            .iter()
            .filter_map(|item| if let DiscordNote::Login(at) = item { Some(*at) } else { None })
            .collect()
    }

    /// Forgets a channel that no longer exists.
    pub fn forget(&self, channel: ChannelId) {
        self.noted.lock().insert(DiscordNoteKey::Channel(channel), None);
    }

    /// Notes the message of an open question, in memory only.
    pub fn open_question(&self, id: &str, channel: ChannelId, message: MessageId) {
        self.noted.lock().insert(
            DiscordNoteKey::Question(id.to_owned()),
            Some(DiscordNote::Question { id: id.to_owned(), channel, message }),
        );
    }

    /// Notes that a question is closed, in memory only.
    pub fn close_question(&self, id: &str) {
        self.noted.lock().insert(DiscordNoteKey::Question(id.to_owned()), None);
    }

    /// Returns all channels with the last message that was handled in each, including unsaved ones.
    /// Reads the file again if it was changed by hand.
    pub async fn seen(&self) -> BTreeMap<ChannelId, MessageId> {
        let seen = |item: &DiscordNote| {
            if let DiscordNote::Seen { channel, message } = item {
                Some((*channel, *message))
            } else {
                None
            }
        };
        self.items().await.iter().filter_map(seen).collect()
    }

    /// Returns all open questions with their channels and messages, including unsaved ones. Reads
    /// the file again if it was changed by hand.
    pub async fn questions(&self) -> Vec<(String, ChannelId, MessageId)> {
        let question = |item: DiscordNote| {
            if let DiscordNote::Question { id, channel, message } = item {
                Some((id, channel, message))
            } else {
                None
            }
        };
        self.items().await.into_iter().filter_map(question).collect()
    }

    /// Returns the lines about the channels for which `wanted` returns true, and about their
    /// questions. Reads the file again if it was changed by hand.
    pub async fn lines_of(&self, wanted: impl Fn(ChannelId) -> bool) -> String {
        let items = self.items().await;
        let theirs = |item: &&DiscordNote| match item {
            DiscordNote::Seen { channel, .. } | DiscordNote::Question { channel, .. } => {
                wanted(*channel)
            }
            DiscordNote::Login(_) => false,
        };
        items.iter().filter(theirs).map(line_of).collect()
    }

    /// Parses lines of [`DiscordNotes::lines_of`], or a whole file. Ignores logins and lines that
    /// cannot be parsed.
    #[must_use]
    pub fn read_lines(text: &str) -> ChannelNotes {
        let mut noted = ChannelNotes::default();
        let read =
            text.lines().filter_map(|line| DiscordNote::parse(&parse_tokens(line)?.ok()?).ok());
        for item in read {
            match item {
                DiscordNote::Seen { channel, message } => noted.channels.push((channel, message)),
                DiscordNote::Question { id, channel, message } => {
                    noted.questions.push((id, channel, message))
                }
                DiscordNote::Login(_) => {}
            }
        }
        noted
    }

    async fn items(&self) -> Vec<DiscordNote> {
        let noted = Arc::clone(&self.noted);
        self.file
            .look(move |file| {
                let mut entries = file.entries.clone();
                merge(&mut entries, &noted.lock());
                DiscordNote::trim(&mut entries);
                entries.into_values().collect()
            })
            .await
    }

    /// Writes everything noted since the last save, in one write. Should be called about every
    /// second, and at shutdown. Returns whether there was anything to write.
    ///
    /// # Errors
    /// [`FileError`]; the notes are kept for the next save.
    pub async fn save(&self) -> Result<bool, FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut file = notes.file.lock();
            let noted = std::mem::take(&mut *notes.noted.lock());
            if noted.is_empty() {
                return Ok(false);
            }
            let saved = file.change(|entries| merge(entries, &noted));
            if saved.is_err() {
                let mut newer = notes.noted.lock();
                for (key, item) in noted {
                    newer.entry(key).or_insert(item);
                }
            }
            saved.map(|()| true)
        })
        .await
    }

    /// Returns the lines that could not be read when the file was last read, each with its number.
    /// They stay in the file.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.file.warnings()
    }
}

fn merge(entries: &mut BTreeMap<DiscordNoteKey, DiscordNote>, noted: &NotedChanges) {
    for (key, item) in noted {
        match (entries.get_mut(key), item) {
            // A person may have changed it to a later message by hand.
            (
                Some(DiscordNote::Seen { message: last, .. }),
                Some(DiscordNote::Seen { message, .. }),
            ) => *last = (*last).max(*message),
            (_, Some(item)) => drop(entries.insert(key.clone(), item.clone())),
            (_, None) => drop(entries.remove(key)),
        }
    }
}

impl StateEntry for DiscordNote {
    type Key = DiscordNoteKey;
    const FILE: &str = "discord.md";
    const HEADING: &str = "# Discord

The last message that was handled in each channel. After an outage, Aetheel continues after it. If you remove a line, messages that
were missed there are not answered. The file also lists open questions of agents, so that a restart can remove their buttons, and the
last logins (milliseconds since 1970): after many logins in a short time, the next one waits.

";

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        // The file may contain other kinds of lines.
        let kind = tokens.first().and_then(|first| first.text().split_once(':'));
        let (kind, name) = kind.ok_or(EntryError::OtherKind)?;
        let codes = tokens[1..].iter().filter(|token| matches!(token, Token::Code(_)));
        let codes: Vec<&str> = codes.map(Token::text).collect();
        match (kind, codes.as_slice()) {
            ("channel", [.., last]) => {
                Ok(Self::Seen { channel: parse_id(name)?, message: parse_id(last)? })
            }
            ("channel", []) => {
                Err(EntryError::Parts("expected: `channel:id` seen to `message id`"))
            }
            ("question", [place, message]) => {
                let channel = place.strip_prefix("channel:");
                let channel = channel.ok_or_else(|| EntryError::code(place, "a channel"))?;
                let (channel, message) = (parse_id(channel)?, parse_id(message)?);
                Ok(Self::Question { id: name.to_owned(), channel, message })
            }
            ("question", _) => Err(EntryError::Parts(
                "expected: `question:id` open in `channel:id` at `message id`",
            )),
            ("login", _) => {
                let at = name.parse().map_err(|_| EntryError::code(name, "a time in milliseconds"));
                at.map(Self::Login)
            }
            _ => Err(EntryError::OtherKind),
        }
    }

    fn key(&self) -> DiscordNoteKey {
        match self {
            Self::Seen { channel, .. } => DiscordNoteKey::Channel(*channel),
            Self::Question { id, .. } => DiscordNoteKey::Question(id.clone()),
            Self::Login(at) => DiscordNoteKey::Login(*at),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Seen { channel, message } => format!(
                "{} seen to {}",
                code(&format!("channel:{channel}")),
                code(&message.to_string())
            ),
            Self::Question { id, channel, message } => {
                let (question, channel) =
                    (code(&format!("question:{id}")), code(&format!("channel:{channel}")));
                format!("{question} open in {channel} at {}", code(&message.to_string()))
            }
            Self::Login(at) => code(&format!("login:{at}")),
        }
    }

    fn trim(entries: &mut BTreeMap<DiscordNoteKey, Self>) {
        let logins: Vec<DiscordNoteKey> =
            entries.keys().filter(|key| matches!(key, DiscordNoteKey::Login(_))).cloned().collect();
        for key in logins.iter().rev().skip(MAX_LOGINS) {
            entries.remove(key);
        }
    }
}

fn parse_id<T: FromStr>(text: &str) -> Result<T, EntryError> {
    text.parse().map_err(|_| EntryError::code(text, "a Discord id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(channel: u64) -> ChannelId {
        ChannelId::discord(channel)
    }

    fn last(message: u64) -> MessageId {
        MessageId::discord(message)
    }

    #[tokio::test]
    async fn all_notes_are_written_together_and_found_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("discord.md");
        let seen = DiscordNotes::open(folder.path()).unwrap();
        assert!(!seen.save().await.unwrap() && !path.exists(), "nothing to write");
        for (channel, message) in [(1, 10), (2, 20), (1, 12), (1, 11), (3, 30)] {
            seen.note_seen(at(channel), last(message));
        }
        seen.forget(at(3));
        let expected = BTreeMap::from([(at(1), last(12)), (at(2), last(20))]);
        assert_eq!(seen.seen().await, expected, "before it is written");
        assert!(seen.save().await.unwrap() && !seen.save().await.unwrap());
        assert_eq!(DiscordNotes::open(folder.path()).unwrap().seen().await, expected);
    }

    #[tokio::test]
    async fn an_edit_by_hand_takes_effect_and_other_lines_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("discord.md");
        let text = "# Mine\n\n- `channel:1` seen to `10`\n- `channel:x` seen to `1`\n- `weather:9` fine\n- `channel:2` seen to `20`\n";
        std::fs::write(&path, text).unwrap();
        let seen = DiscordNotes::open(folder.path()).unwrap();
        let warnings = seen.warnings();
        assert!(
            warnings.len() == 1 && warnings[0].contains("line 4") && warnings[0].contains("`x`"),
            "{warnings:?}"
        );
        std::fs::write(&path, text.replace("`10`", "`5`")).unwrap();
        seen.note_seen(at(2), last(21));
        assert_eq!(seen.seen().await, BTreeMap::from([(at(1), last(5)), (at(2), last(21))]));
        seen.save().await.unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            text.replace("`10`\n", "`5`.\n").replace("`20`\n", "`21`.\n")
        );
    }

    #[tokio::test]
    async fn notes_that_could_not_be_written_are_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("discord.md");
        let seen = DiscordNotes::open(&folder.path().join("state")).unwrap();
        seen.note_seen(at(1), last(10));
        let error = seen.save().await.unwrap_err().to_string();
        assert!(error.contains("discord.md"), "{error}");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        assert!(seen.save().await.unwrap());
        assert!(std::fs::read_to_string(&path).unwrap().contains("`channel:1` seen to `10`"));
    }

    #[tokio::test]
    async fn the_last_logins_are_kept_and_older_ones_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let notes = DiscordNotes::open(folder.path()).unwrap();
        for at in 0..40 {
            notes.note_login(1_800_000_000_000 + at);
        }
        notes.save().await.unwrap();
        let logins = DiscordNotes::open(folder.path()).unwrap().logins().await;
        assert_eq!(
            (logins.len(), logins[0], logins[31]),
            (32, 1_800_000_000_008, 1_800_000_000_039)
        );
    }

    #[tokio::test]
    async fn open_questions_are_saved_beside_the_channels_until_they_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("discord.md");
        let notes = DiscordNotes::open(folder.path()).unwrap();
        notes.note_seen(at(1), last(10));
        notes.open_question("0a1b", at(1), last(11));
        notes.open_question("0a1c", at(2), last(12));
        notes.close_question("0a1c");
        notes.save().await.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("- `question:0a1b` open in `channel:1` at `11`.\n")
                && !text.contains("0a1c"),
            "{text}"
        );
        let later = DiscordNotes::open(folder.path()).unwrap();
        assert_eq!(later.questions().await, [("0a1b".to_owned(), at(1), last(11))]);
        assert_eq!(later.seen().await, BTreeMap::from([(at(1), last(10))]));
        let lines = later.lines_of(|channel| channel == at(1)).await;
        assert_eq!(
            DiscordNotes::read_lines(&lines),
            ChannelNotes {
                channels: vec![(at(1), last(10))],
                questions: vec![("0a1b".to_owned(), at(1), last(11))]
            }
        );
        assert_eq!(later.lines_of(|channel| channel == at(2)).await, "");
        later.close_question("0a1b");
        later.save().await.unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("`question:"));
        assert_eq!(later.warnings(), Vec::<String>::new());
    }

    #[test]
    fn lines_of_another_node_are_read_one_by_one_and_invalid_ones_are_ignored() {
        let text = "# Discord\n\n- `channel:1` seen to `10`.\n- `login:5`.\n- `channel:2` seen to `x`.\n- `channel:slack:3` seen to `3`.\n- `channel:3\n- `question:q%60` open in `channel:discord:1` at `discord:9`.\nchannel:4 seen to 5\n- `channel:99999999999999999999` seen to `1`.";
        assert_eq!(
            DiscordNotes::read_lines(text),
            ChannelNotes {
                channels: vec![(at(1), last(10))],
                questions: vec![("q`".to_owned(), at(1), last(9))]
            }
        );
    }
}
