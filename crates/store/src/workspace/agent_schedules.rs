//! `state/agent-schedules.md`: the turns that agents asked for at later times, so that each of them
//! runs once, also after a restart.

use jiff::{SignedDuration, Timestamp};

use super::FileError;
use super::state_file::lanes::LaneEntry;
use super::state_file::{EntryError, EntryValue, LineForm, StateEntry, StateFile, Token};
use aetheel_model::event::{AgentCause, Lane};
use aetheel_model::id::{ChannelId, UserId};

const FORM: LineForm = LineForm::new(
    "{} lane {} # next {} until {} naps # asker {} parent {} cron {} zone {} for {} allowed {} prompt {}",
    "it does not have an id, a lane, a reason, two times, a number, and eight further values",
);
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

impl StateFile<AgentSchedule> {
    /// Adds an entry, unless one with its id exists, or `fits` returns false for the entries so far.
    /// Removes entries that ended long ago. Returns whether an entry with the id exists now.
    ///
    /// # Errors
    /// [`FileError`]; nothing was added.
    pub async fn add(
        &self,
        entry: AgentSchedule,
        now: Timestamp,
        fits: impl FnOnce(&mut dyn Iterator<Item = &AgentSchedule>) -> bool + Send + 'static,
    ) -> Result<bool, FileError> {
        self.try_change(move |entries| {
            if entries.contains_key(&entry.id) {
                return Ok(true);
            }
            if !fits(&mut entries.values()) {
                return Ok(false);
            }
            let forgotten = now.checked_sub(REMEMBERED).unwrap_or(Timestamp::MIN);
            entries.retain(|_, known| known.next.is_some() || known.until > forgotten);
            entries.insert(entry.id.clone(), entry);
            Ok(true)
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
        self.change(move |entries| {
            if let Some(entry) = entries.get_mut(&id) {
                entry.next = next;
                if next.is_none() {
                    entry.until = now;
                }
            }
        })
        .await
    }
}

impl LaneEntry for AgentSchedule {
    fn lane(&self) -> &Lane {
        &self.lane
    }
}

impl StateEntry for AgentSchedule {
    type Key = String;
    const FILE: &str = "agent-schedules.md";
    const HEADING: &str = "# Turns that agents asked for

Each line has an id, a lane, a reason, its next time, its end, the number of sleeps before it, the person who asked, the channel of
a thread, the cron expression, its time zone, the names of the person who asked and of the person who allowed it, and the prompt. If
you remove a line, nothing runs any more. See docs/host-tools.md.

";

    fn key(&self) -> String {
        self.id.clone()
    }

    fn write(&self) -> String {
        let Self { id, lane, cause, next, until, naps, asker, name, allowed_by, .. } = self;
        let Self { parent, cron, text, .. } = self;
        let expression = cron.as_ref().map(|cron| cron.expression.clone());
        let zone = cron.as_ref().map(|cron| cron.zone.clone());
        FORM.write(&[
            id,
            lane,
            cause,
            next,
            until,
            naps,
            asker,
            parent,
            &expression,
            &zone,
            name,
            allowed_by,
            text,
        ])
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let [id, lane, cause, next, until, naps, asker, parent, expression, zone, name, by, text] =
            FORM.values(tokens)?;
        let (expression, zone): (Option<String>, Option<String>) =
            (expression.read()?, zone.read()?);
        Ok(Self {
            id: id.read()?,
            lane: lane.read()?,
            cause: cause.read()?,
            next: next.read()?,
            until: until.read()?,
            naps: naps.read()?,
            asker: asker.read()?,
            name: name.read()?,
            allowed_by: by.read()?,
            parent: parent.read()?,
            cron: expression.zip(zone).map(|(expression, zone)| CronTimes { expression, zone }),
            text: text.read()?,
        })
    }
}

const CAUSES: [(&str, AgentCause); 4] = [
    ("handoff", AgentCause::HandOff),
    ("reminder", AgentCause::Reminder),
    ("schedule", AgentCause::Schedule),
    ("sleep", AgentCause::Sleep),
];

impl EntryValue for AgentCause {
    fn to_text(&self) -> String {
        let known = CAUSES.iter().find(|(_, known)| known == self);
        known.map_or("-", |(word, _)| word).to_owned()
    }

    fn read(token: &Token) -> Result<Self, EntryError> {
        let known = CAUSES.into_iter().find(|(word, _)| *word == token.text());
        known
            .map(|(_, cause)| cause)
            .ok_or_else(|| EntryError::value(token.text(), "`reminder`, `schedule` or `sleep`"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::workspace::state_file::lanes::{forget, import, lines_of};
    use aetheel_model::event::LaneFilter;

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
        let open = || StateFile::<AgentSchedule>::open(folder.path()).expect("opened");
        let notes = open();
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
        let again = open();
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
        let open = |name: &str| {
            let state = folder.path().join(name);
            std::fs::create_dir(&state).expect("created");
            StateFile::<AgentSchedule>::open(&state).expect("opened")
        };
        let (one, other) = (open("one"), open("other"));
        for (id, channel) in [("a", 1), ("b", 2)] {
            assert!(one.add(entry(id, channel), now(), |_| true).await.expect("saved"));
        }
        let moved: LaneFilter = Arc::new(|lane| *lane == Lane::Channel(ChannelId::discord(2)));
        let lines = lines_of(&one, moved.clone()).await;
        for _ in 0..2 {
            import(&other, &lines).await.expect("saved");
        }
        forget(&one, moved).await.expect("saved");
        assert_eq!((one.all(), other.all()), (vec![entry("a", 1)], vec![entry("b", 2)]));
    }
}
