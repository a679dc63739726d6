//! `state/schedules.md`: the times up to which heartbeats and cron jobs have run, so that a restart
//! neither repeats nor loses a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};
use aetheel_model::event::Lane;

const HEADING: &str = "# Schedules

The time up to which each heartbeat and cron job has run, and its schedule at that time. At the next start, a recently missed run of
a cron job is made up for. If you remove the line of a job, it begins anew.

";

/// The time up to which one heartbeat or cron job has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleProgress {
    /// Its schedule and time zone, as text.
    pub schedule: String,
    /// Every tick up to this time has run or was skipped.
    pub through: Timestamp,
}

/// The notes about schedules. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct ScheduleNotes(Arc<Mutex<LedgerFile<ScheduleNote>>>);

#[derive(Clone, Debug)]
pub(super) struct ScheduleNote {
    lane: Lane,
    noted: ScheduleProgress,
}

impl Workspace {
    /// Returns the times up to which heartbeats and cron jobs have run.
    #[must_use]
    pub fn schedule_notes(&self) -> &ScheduleNotes {
        &self.schedules
    }
}

impl ScheduleNotes {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?))))
    }

    /// Returns the notes. Reads the file again if another program changed it; if it cannot be read,
    /// the last content stays in force.
    pub async fn read(&self) -> BTreeMap<Lane, ScheduleProgress> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            if let Err(error) = ledger.refresh() {
                tracing::warn!(error = %error.source, "{error}; the content that was read last stays in force");
            }
            ledger.entries.values().map(|item| (item.lane.clone(), item.noted.clone())).collect()
        })
        .await
    }

    /// Replaces all notes. Does nothing if they are the same.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn save(&self, all: BTreeMap<Lane, ScheduleProgress>) -> Result<(), FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            ledger.refresh()?;
            let same = ledger.entries.len() == all.len()
                && all.iter().all(|(lane, noted)| {
                    ledger.entries.get(lane).is_some_and(|item| item.noted == *noted)
                });
            if same {
                return Ok(());
            }
            ledger.entries = all
                .into_iter()
                .map(|(lane, noted)| (lane.clone(), ScheduleNote { lane, noted }))
                .collect();
            ledger.save()
        })
        .await
    }
}

impl LedgerEntry for ScheduleNote {
    type Key = Lane;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        let codes = tokens.iter().filter_map(|token| {
            if let Token::Code(text) = token { Some(text.as_str()) } else { None }
        });
        let [lane, schedule, through] = codes.collect::<Vec<_>>()[..] else {
            return Some(Err(EntryError::Parts("it does not have a lane, a schedule and a time")));
        };
        Some(match (lane.parse(), through.parse()) {
            (Ok(lane), Ok(through)) => Ok(Self {
                lane,
                noted: ScheduleProgress { schedule: schedule.to_owned(), through },
            }),
            (Err(error), _) => Err(EntryError::InvalidLane(error)),
            (_, Err(_)) => Err(EntryError::value(through, "a time such as `2026-03-01T09:00:00Z`")),
        })
    }

    fn key(&self) -> Lane {
        self.lane.clone()
    }

    fn write(&self) -> String {
        let ScheduleProgress { schedule, through } = &self.noted;
        format!(
            "{} ({}) up to {}",
            code(&self.lane.to_string()),
            code(schedule),
            code(&through.to_string())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(schedule: &str, through: &str) -> ScheduleProgress {
        ScheduleProgress {
            schedule: schedule.to_owned(),
            through: through.parse().expect("a time"),
        }
    }

    #[tokio::test]
    async fn notes_survive_a_restart_and_can_be_edited() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("schedules.md");
        let notes = ScheduleNotes::open(&path).expect("opened");
        let backup = noted("0 9 * * * UTC", "2026-03-01T09:00:00Z");
        let all = BTreeMap::from([
            (Lane::Cron("back `up`".to_owned()), backup.clone()),
            (
                Lane::Heartbeat("inbox".to_owned()),
                noted("every 60 s UTC", "2026-03-01T09:01:00.5Z"),
            ),
        ]);
        notes.save(all.clone()).await.expect("saved");
        assert_eq!(ScheduleNotes::open(&path).expect("opened").read().await, all);

        let text = std::fs::read_to_string(&path).expect("read");
        assert!(
            text.contains(
                "- `cron:back %60up%60` (`0 9 * * * UTC`) up to `2026-03-01T09:00:00Z`.\n"
            ),
            "{text}"
        );
        let mended = text.replace("`heartbeat:inbox`", "`inbox`") + "\nA remark.\n";
        std::fs::write(&path, mended).expect("written");
        assert_eq!(
            notes.read().await,
            BTreeMap::from([(Lane::Cron("back `up`".to_owned()), backup)])
        );
        notes.save(BTreeMap::new()).await.expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(
            text.contains("A remark.") && text.contains("`inbox`") && !text.contains("cron:"),
            "{text}"
        );
    }
}
