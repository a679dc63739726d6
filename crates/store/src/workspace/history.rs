//! `state/history.md`: the earlier conversations of each channel, so that people can resume one.
//!
//! Tested below and in `tests/dispatch/sessions.rs`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use jiff::Timestamp;

use super::FileError;
use super::state_file::lanes::LaneEntry;
use super::state_file::{EntryError, LedgerFile, LineForm, StateEntry, StateFile, Token, code};
use aetheel_model::agent::SessionId;
use aetheel_model::event::Lane;

/// Maximum number of conversations that are kept for a lane and backend.
pub(super) const MAX_PER_LANE: usize = 10;
/// Maximum number of conversations that are kept for all lanes together.
const MAX_IN_ALL: usize = 5_000;
/// How far [`MAX_IN_ALL`] may be exceeded before the oldest are removed together, because this
/// rewrites the file.
const PRUNE_MARGIN: usize = 500;

/// An earlier conversation of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastConversation {
    /// The lane that had it.
    pub lane: Lane,
    /// The backend that answered, by name.
    pub backend: String,
    /// The agent's id of its session.
    pub session: SessionId,
    /// When it began or was last resumed.
    pub since: Timestamp,
    /// Its first words, on one line.
    pub title: String,
    /// The directory in which its agent worked, if it was not the usual one.
    pub directory: Option<String>,
}

/// All earlier conversations. Cheap to clone; clones share everything.
///
/// Every call first reads the file again if another program changed it.
#[derive(Clone, Debug)]
pub struct History(StateFile<PastConversation>);

impl History {
    /// Reads the file; a missing file is empty.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        StateFile::open(state).map(Self)
    }

    pub(super) fn file(&self) -> &StateFile<PastConversation> {
        &self.0
    }

    /// Returns the conversations of a lane with a backend, the latest first.
    pub async fn of(&self, lane: &Lane, backend: &str) -> Vec<PastConversation> {
        let (lane, backend) = (lane.clone(), backend.to_owned());
        let wanted = move |past: &PastConversation| past.lane == lane && past.backend == backend;
        let mut found = self.0.find(wanted).await;
        found.sort_by_key(|past| std::cmp::Reverse(past.since));
        found
    }

    /// Returns the sessions that other lanes had with a backend.
    pub async fn sessions_of_other_lanes(&self, lane: &Lane, backend: &str) -> Vec<SessionId> {
        let (lane, backend) = (lane.clone(), backend.to_owned());
        let wanted = move |past: &PastConversation| past.lane != lane && past.backend == backend;
        self.0.find(wanted).await.into_iter().map(|past| past.session).collect()
    }

    /// Saves a conversation, and removes the oldest ones beyond the maximum. With `before`, the
    /// conversation continues that session of the same lane and backend, and keeps its title and its
    /// beginning.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or written.
    pub async fn note(
        &self,
        mut past: PastConversation,
        before: Option<&SessionId>,
    ) -> Result<(), FileError> {
        let before = before.cloned();
        self.0
            .write(move |file| {
                let (lane, backend) = (past.lane.clone(), past.backend.clone());
                let before = before
                    .map(|before| (lane.clone(), backend.clone(), before.to_string()))
                    .and_then(|key| file.entries.remove(&key));
                let Some(before) = before else {
                    file.put(past)?;
                    let is_too_long = is_too_long(file, lane, backend);
                    return if is_too_long { prune(file) } else { Ok(()) };
                };
                past.title = before.title;
                past.since = before.since;
                file.entries.insert(past.key(), past);
                prune(file)
            })
            .await
    }

    /// Forgets a conversation that the agent no longer knows.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or written.
    pub async fn forget(
        &self,
        lane: &Lane,
        backend: &str,
        session: &SessionId,
    ) -> Result<(), FileError> {
        self.0.remove((lane.clone(), backend.to_owned(), session.to_string())).await
    }
}

/// Returns whether a lane and backend has too many conversations, or there are so many in total
/// that removing some is worth a rewrite.
fn is_too_long(file: &LedgerFile<PastConversation>, lane: Lane, backend: String) -> bool {
    let first = (lane, backend, String::new());
    let of_lane = file
        .entries
        .range(first.clone()..)
        .take_while(|(key, _)| (&key.0, &key.1) == (&first.0, &first.1))
        .count();
    of_lane > MAX_PER_LANE || file.entries.len() > MAX_IN_ALL + PRUNE_MARGIN
}

/// Removes all but the latest conversations and writes the file.
fn prune(file: &mut LedgerFile<PastConversation>) -> Result<(), FileError> {
    PastConversation::trim(&mut file.entries);
    file.save()
}

impl LaneEntry for PastConversation {
    fn lane(&self) -> &Lane {
        &self.lane
    }

    fn arrive(self) -> Option<Self> {
        Some(self).filter(|past| !past.lane.is_local())
    }
}

const FORM: LineForm = LineForm::new(
    "{} with {}: session {}, since {}, title {}",
    "expected: `lane` with `backend`: session `id`, since `time`, title `words`, and perhaps directory `path`",
);

impl StateEntry for PastConversation {
    type Key = (Lane, String, String);
    const FILE: &str = "history.md";
    const HEADING: &str = "# History

Conversations that can be resumed with `/sessions`: the latest ones of each lane and backend. Aetheel reads this file
again whenever it changes: remove a line to forget a conversation here, or change its `title`.

";

    fn key(&self) -> Self::Key {
        (self.lane.clone(), self.backend.clone(), self.session.to_string())
    }

    fn write(&self) -> String {
        let Self { lane, backend, session, since, title, directory } = self;
        let line = FORM.write(&[lane, backend, session, since, title]);
        let directory = directory.as_deref().map(|path| format!(", directory {}", code(path)));
        line + &directory.unwrap_or_default()
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let (mut spans, mut word) = (Vec::new(), "");
        for token in tokens {
            match token {
                Token::Word(next) => word = next,
                Token::Code(_) => spans.push((std::mem::take(&mut word), token)),
            }
        }
        let [("", lane), ("" | "with", backend), named @ ..] = spans.as_slice() else {
            return Err(FORM.fault());
        };
        let value =
            |name: &str| named.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let is_known = |name: &str| matches!(name, "session" | "since" | "title" | "directory");
        if let Some((other, _)) = named.iter().find(|(name, _)| !is_known(name)) {
            return Err(EntryError::value(other, "one of session, since, title and directory"));
        }
        let since = value("since").ok_or_else(|| FORM.fault())?;
        Ok(Self {
            lane: lane.read()?,
            backend: backend.read()?,
            session: value("session").ok_or_else(|| FORM.fault())?.read()?,
            since: since.parse_quoted("a time like 2026-08-06T12:00:00Z")?,
            title: value("title").map_or_else(|| Ok(String::new()), Token::read)?,
            directory: value("directory").map(Token::read).transpose()?,
        })
    }

    fn trim(entries: &mut BTreeMap<Self::Key, Self>) {
        let mut all: Vec<_> = entries.iter().map(|(key, past)| (past.since, key.clone())).collect();
        all.sort_by(|a, b| b.cmp(a));
        let mut counts: HashMap<(Lane, String), usize> = HashMap::new();
        for (rank, (_, key)) in all.into_iter().enumerate() {
            let count = counts.entry((key.0.clone(), key.1.clone())).or_default();
            *count += 1;
            if *count > MAX_PER_LANE || rank >= MAX_IN_ALL {
                entries.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use std::fs;

    use super::*;
    use aetheel_model::id::ChannelId;

    const LANE: Lane = Lane::Channel(ChannelId::discord(7));

    fn past(session: &str, minute: i64) -> PastConversation {
        PastConversation {
            lane: LANE,
            backend: "claude".to_owned(),
            session: SessionId::new(session).unwrap(),
            since: Timestamp::from_second(1_800_000_000 + minute * 60).unwrap(),
            title: format!("`title` of {session}, 100%"),
            directory: (minute % 2 == 1).then(|| "/srv/a b".to_owned()),
        }
    }

    async fn ids(history: &History) -> Vec<String> {
        history.of(&LANE, "claude").await.iter().map(|past| past.session.to_string()).collect()
    }

    #[tokio::test]
    async fn the_last_ten_of_a_lane_and_backend_survive_restarts_latest_first() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        for minute in 0..12 {
            history.note(past(&format!("s{minute}"), minute), None).await.unwrap();
        }
        let other =
            PastConversation { lane: Lane::Channel(ChannelId::discord(8)), ..past("elsewhere", 0) };
        history.note(other, None).await.unwrap();
        let restarted = History::open(folder.path()).unwrap();
        let wanted: Vec<String> = (2..12).rev().map(|minute| format!("s{minute}")).collect();
        assert_eq!((ids(&history).await, ids(&restarted).await), (wanted.clone(), wanted));
        assert_eq!(restarted.of(&LANE, "claude").await[0], past("s11", 11));
        assert_eq!(
            restarted.sessions_of_other_lanes(&LANE, "claude").await,
            [SessionId::new("elsewhere").unwrap()]
        );
        assert!(restarted.of(&LANE, "codex").await.is_empty());
    }

    #[tokio::test]
    async fn a_continued_session_keeps_its_title_and_a_lost_one_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        history.note(past("first", 0), None).await.unwrap();
        history.note(past("second", 1), Some(&SessionId::new("first").unwrap())).await.unwrap();
        let found = history.of(&LANE, "claude").await;
        assert_eq!(
            (found.len(), found[0].session.as_str(), found[0].title.as_str()),
            (1, "second", "`title` of first, 100%")
        );
        history.forget(&LANE, "claude", &found[0].session).await.unwrap();
        assert!(ids(&history).await.is_empty());
    }

    #[tokio::test]
    async fn a_person_can_edit_the_file_and_an_invalid_line_affects_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.md");
        let good = "- `channel:7` with `claude`: session `one`, since `2026-08-06T12:00:00Z`, title `by hand`\n";
        let text = format!(
            "# Mine\n{good}- `channel:7` with `claude`: session `--flag`, since `2026-08-06T12:00:00Z`\n\
             - `channel:7` with `claude`: session `two`, since `yesterday`\n- `channel:7` with `claude`: session `x`, since `2026-08-06T12:00:00Z`, colour `red`\n"
        );
        fs::write(&path, &text).unwrap();
        let history = History::open(folder.path()).unwrap();
        assert_eq!(ids(&history).await, ["one"]);
        assert_eq!(history.0.lock().warnings.len(), 3, "{:?}", history.0.lock().warnings);
        history.note(past("two", 1), None).await.unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.starts_with(&text) && written.contains("session `two`"), "{written}");
        fs::write(&path, written.replace(good, "")).unwrap();
        assert_eq!(ids(&history).await, ["two"]);
    }
}
