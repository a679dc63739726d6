//! `state/agent-schedules.md`: the turns that agents asked for at later times, so that each of them
//! runs once, also after a restart.

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code, line_of, parse_entries};
use super::{FileError, Workspace, blocking};
use aetheel_model::event::{AgentCause, Lane, LaneFilter};
use aetheel_model::id::{ChannelId, UserId};

const HEADING: &str = "# Turns that agents asked for

Each line has an id, a lane, a reason, its next time, its end, the number of sleeps before it, the person who asked, the channel of
a thread, the cron expression, its time zone, the names of the person who asked and of the person who allowed it, and the prompt. If
you remove a line, nothing runs any more. See docs/host-tools.md.

";
/// Stands for a value that is missing.
const MISSING: &str = "-";
/// How long an entry is remembered after its end, so that a repeated call does not add it again.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(48);

/// Turns that an agent asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSchedule {
    /// The id, which is computed from the call of the agent.
    pub id: String,
    /// The lane in which the turns run.
    pub lane: Lane,
    /// The reason.
    pub cause: AgentCause,
    /// The time of the next turn, or `None` if there are no more turns.
    pub next: Option<Timestamp>,
    /// The time after which no turn begins. Later the entry is removed.
    pub until: Timestamp,
    /// The number of times in a row that the work was continued after a sleep.
    pub naps: u32,
    /// The person on whose behalf the agent asked.
    pub asker: Option<UserId>,
    /// The name of that person.
    pub name: Option<String>,
    /// The name of the person who allowed a schedule.
    pub allowed_by: Option<String>,
    /// The channel of the thread, if the lane is a thread.
    pub parent: Option<ChannelId>,
    /// The times, or `None` for a single turn.
    pub cron: Option<CronTimes>,
    /// The prompt, without secrets.
    pub text: String,
}

/// The times of turns that repeat, as they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronTimes {
    /// The cron expression.
    pub expression: String,
    /// The name of its time zone.
    pub zone: String,
}

/// The notes about turns that agents asked for. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct AgentSchedules(Arc<Mutex<LedgerFile<AgentSchedule>>>);

impl Workspace {
    /// Returns the turns that agents asked for at later times.
    #[must_use]
    pub fn agent_schedules(&self) -> &AgentSchedules {
        &self.agent_schedules
    }
}

impl AgentSchedules {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?))))
    }

    /// Returns all entries, also those without further turns, as the file was last read or written.
    /// Does no I/O.
    #[must_use]
    pub fn all(&self) -> Vec<AgentSchedule> {
        self.0.lock().entries.values().cloned().collect()
    }

    /// Returns all entries. Reads the file again if another program changed it.
    pub async fn read(&self) -> Vec<AgentSchedule> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            if let Err(error) = ledger.refresh() {
                tracing::warn!(error = %error.source, "{error}; the content that was read last stays in force");
            }
            ledger.entries.values().cloned().collect()
        })
        .await
    }

    /// Returns the parts of the file that could not be read, as it was last read. Does no I/O.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.0.lock().warnings.clone()
    }

    /// Adds an entry, unless one with its id exists, or `fits` returns false for the entries so far.
    /// Removes entries that ended long ago. Returns whether an entry with the id exists now.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn add(
        &self,
        entry: AgentSchedule,
        now: Timestamp,
        fits: impl FnOnce(&mut dyn Iterator<Item = &AgentSchedule>) -> bool + Send + 'static,
    ) -> Result<bool, FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            ledger.refresh()?;
            if ledger.entries.contains_key(&entry.id) {
                return Ok(true);
            }
            if !fits(&mut ledger.entries.values()) {
                return Ok(false);
            }
            let forgotten = now.checked_sub(REMEMBERED).unwrap_or(Timestamp::MIN);
            ledger.entries.retain(|_, known| known.next.is_some() || known.until > forgotten);
            ledger.entries.insert(entry.id.clone(), entry);
            ledger.save().map(|()| true)
        })
        .await
    }

    /// Sets the next time of an entry; without one, it has no further turns, and its end is now.
    /// Does nothing if there is no such entry.
    ///
    /// # Errors
    /// [`FileError`]; the change is in force until the process ends.
    pub async fn set_next(
        &self,
        id: String,
        next: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), FileError> {
        self.change(move |ledger| {
            if let Some(entry) = ledger.entries.get_mut(&id) {
                entry.next = next;
                if next.is_none() {
                    entry.until = now;
                }
            }
        })
        .await
    }

    pub(super) async fn lines_of(&self, lanes: LaneFilter) -> String {
        let notes = self.clone();
        blocking(move || {
            let ledger = notes.0.lock();
            ledger.entries.values().filter(|entry| lanes(&entry.lane)).map(line_of).collect()
        })
        .await
    }

    pub(super) async fn forget_all(&self, lanes: LaneFilter) -> Result<(), FileError> {
        self.change(move |ledger| ledger.entries.retain(|_, entry| !lanes(&entry.lane))).await
    }

    pub(super) async fn lanes(&self) -> Vec<Lane> {
        self.all().into_iter().map(|entry| entry.lane).collect()
    }

    /// Adds the entries in `lines` that are not known.
    pub(super) async fn import(&self, lines: &str) -> Result<(), FileError> {
        let imported: Vec<AgentSchedule> = parse_entries(lines);
        self.change(move |ledger| {
            for entry in imported {
                ledger.entries.entry(entry.id.clone()).or_insert(entry);
            }
        })
        .await
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut LedgerFile<AgentSchedule>) + Send + 'static,
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

const CAUSES: [(&str, AgentCause); 4] = [
    ("handoff", AgentCause::HandOff),
    ("reminder", AgentCause::Reminder),
    ("schedule", AgentCause::Schedule),
    ("sleep", AgentCause::Sleep),
];

impl LedgerEntry for AgentSchedule {
    type Key = String;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        Some(parse(tokens))
    }

    fn key(&self) -> String {
        self.id.clone()
    }

    fn write(&self) -> String {
        let Self { id, lane, cause, next, until, naps, asker, name, allowed_by, .. } = self;
        let Self { parent, cron, text, .. } = self;
        let cause =
            CAUSES.iter().find(|(_, known)| known == cause).map_or(MISSING, |(word, _)| word);
        let field = |value: Option<String>| code(value.as_deref().unwrap_or(MISSING));
        format!(
            "{} lane {} {cause} next {} until {} naps {naps} asker {} parent {} cron {} zone {} for {} allowed {} prompt {}",
            code(id),
            code(&lane.to_string()),
            field(next.map(|next| next.to_string())),
            code(&until.to_string()),
            field(asker.map(|asker| asker.to_string())),
            field(parent.map(|parent| parent.to_string())),
            field(cron.as_ref().map(|cron| cron.expression.clone())),
            field(cron.as_ref().map(|cron| cron.zone.clone())),
            field(name.clone()),
            field(allowed_by.clone()),
            code(text)
        )
    }
}

fn parse(tokens: &[Token]) -> Result<AgentSchedule, EntryError> {
    const WRONG: EntryError = EntryError::Parts(
        "it does not have an id, a lane, a reason, two times, a number, and eight further values",
    );
    let parts: Vec<(bool, &str)> = tokens
        .iter()
        .map(|token| match token {
            Token::Code(text) => (true, text.as_str()),
            Token::Word(word) => (false, word.as_str()),
        })
        .collect();
    let [
        (true, id),
        (false, "lane"),
        (true, lane),
        (false, cause),
        (false, "next"),
        (true, next),
        (false, "until"),
        (true, until),
        (false, "naps"),
        (false, naps),
        (false, "asker"),
        (true, asker),
        (false, "parent"),
        (true, parent),
        (false, "cron"),
        (true, cron),
        (false, "zone"),
        (true, zone),
        (false, "for"),
        (true, name),
        (false, "allowed"),
        (true, allowed_by),
        (false, "prompt"),
        (true, text),
    ] = parts[..]
    else {
        return Err(WRONG);
    };
    let given = |text: &'_ str| Some(text.to_owned()).filter(|text| text != MISSING);
    let time = |text: &str| text.parse::<Timestamp>().map_err(EntryError::InvalidTime);
    let known = CAUSES.into_iter().find(|(word, _)| *word == cause);
    Ok(AgentSchedule {
        id: id.to_owned(),
        lane: lane.parse()?,
        cause: known
            .map(|(_, cause)| cause)
            .ok_or_else(|| EntryError::value(cause, "`reminder`, `schedule` or `sleep`"))?,
        next: given(next).as_deref().map(time).transpose()?,
        until: time(until)?,
        naps: naps.parse().map_err(|_| EntryError::value(naps, "a number"))?,
        asker: given(asker)
            .map(|id| id.parse().map_err(|_| EntryError::code(asker, "the id of a user")))
            .transpose()?,
        name: given(name),
        allowed_by: given(allowed_by),
        parent: given(parent)
            .map(|id| id.parse().map_err(|_| EntryError::code(parent, "the id of a channel")))
            .transpose()?,
        cron: given(cron).zip(given(zone)).map(|(expression, zone)| CronTimes { expression, zone }),
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, channel: u64) -> AgentSchedule {
        AgentSchedule {
            id: id.to_owned(),
            lane: Lane::Channel(ChannelId::discord(channel)),
            cause: AgentCause::Reminder,
            next: Some("2026-11-26T14:05:00Z".parse().expect("a time")),
            until: "2026-11-27T14:05:00Z".parse().expect("a time"),
            naps: 3,
            asker: Some(UserId::discord(7)),
            name: Some("Ann `<@1>`".to_owned()),
            allowed_by: None,
            parent: None,
            cron: None,
            text: "look `there`\nand. 100%".to_owned(),
        }
    }

    fn now() -> Timestamp {
        "2026-11-26T14:00:00Z".parse().expect("a time")
    }

    #[tokio::test]
    async fn entries_survive_a_restart_and_are_added_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent-schedules.md");
        let notes = AgentSchedules::open(&path).expect("opened");
        let repeated = AgentSchedule {
            cause: AgentCause::Schedule,
            asker: None,
            name: None,
            allowed_by: Some("Olga".to_owned()),
            parent: Some(ChannelId::discord(9)),
            cron: Some(CronTimes {
                expression: "0 9 * * 1-5".to_owned(),
                zone: "Europe/Berlin".to_owned(),
            }),
            ..entry("b", 2)
        };
        assert!(notes.add(entry("a", 1), now(), |_| true).await.expect("saved"));
        assert!(notes.add(repeated.clone(), now(), |_| true).await.expect("saved"));
        assert!(!notes.add(entry("c", 1), now(), |all| all.count() < 2).await.expect("read"));
        let other = AgentSchedule { text: "other".to_owned(), ..entry("a", 1) };
        assert!(notes.add(other, now(), |_| false).await.expect("read"), "its id is known");
        let again = AgentSchedules::open(&path).expect("opened");
        assert_eq!(again.all(), [entry("a", 1), repeated.clone()]);
        again.set_next("a".to_owned(), None, now()).await.expect("saved");
        let ended = AgentSchedule { next: None, until: now(), ..entry("a", 1) };
        assert_eq!(again.read().await, [ended, repeated.clone()]);
        // Long after its end it is forgotten.
        let later = now().checked_add(SignedDuration::from_hours(49)).expect("in range");
        assert!(again.add(entry("d", 1), later, |_| true).await.expect("saved"));
        assert_eq!(again.read().await, [repeated, entry("d", 1)]);
    }

    #[tokio::test]
    async fn the_entries_of_a_lane_move_to_another_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |name: &str| AgentSchedules::open(&folder.path().join(name)).expect("opened");
        let (one, other) = (open("one.md"), open("other.md"));
        for (id, channel) in [("a", 1), ("b", 2)] {
            assert!(one.add(entry(id, channel), now(), |_| true).await.expect("saved"));
        }
        let moved: LaneFilter = Arc::new(|lane| *lane == Lane::Channel(ChannelId::discord(2)));
        let lines = one.lines_of(moved.clone()).await;
        for _ in 0..2 {
            other.import(&lines).await.expect("saved");
        }
        one.forget_all(moved).await.expect("saved");
        assert_eq!((one.all(), other.all()), (vec![entry("a", 1)], vec![entry("b", 2)]));
    }
}
