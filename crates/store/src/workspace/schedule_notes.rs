//! `state/schedules.md`: the times up to which heartbeats and cron jobs have run, so that a restart
//! neither repeats nor loses a run.

use jiff::Timestamp;

use super::state_file::{EntryError, LineForm, StateEntry, Token};
use aetheel_model::event::Lane;

const FORM: LineForm =
    LineForm::new("{} ({}) up to {}", "it does not have a lane, a schedule and a time")
        .without_words();

/// The time up to which one heartbeat or cron job has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleProgress {
    /// The lane of the heartbeat or cron job.
    pub lane: Lane,
    /// Its schedule and time zone, as text.
    pub schedule: String,
    /// Every tick up to this time has run or was skipped.
    pub through: Timestamp,
}

impl StateEntry for ScheduleProgress {
    type Key = Lane;
    const FILE: &str = "schedules.md";
    const HEADING: &str = "# Schedules

The time up to which each heartbeat and cron job has run, and its schedule at that time. At the next start, a recently missed run of
a cron job is made up for. If you remove the line of a job, it begins anew.

";

    fn key(&self) -> Lane {
        self.lane.clone()
    }

    fn write(&self) -> String {
        FORM.write(&[&self.lane, &self.schedule, &self.through])
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let [lane, schedule, through] = FORM.values(tokens)?;
        Ok(Self {
            lane: lane.read()?,
            schedule: schedule.read()?,
            through: through.parse_quoted("a time such as `2026-03-01T09:00:00Z`")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::workspace::StateFile;

    fn noted(lane: Lane, schedule: &str, through: &str) -> ScheduleProgress {
        ScheduleProgress {
            lane,
            schedule: schedule.to_owned(),
            through: through.parse().expect("a time"),
        }
    }

    #[tokio::test]
    async fn notes_survive_a_restart_and_can_be_edited() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("schedules.md");
        let open = || StateFile::<ScheduleProgress>::open(folder.path()).expect("opened");
        let notes = open();
        let lane = Lane::Cron("back `up`".to_owned());
        let backup = noted(lane, "0 9 * * * UTC", "2026-03-01T09:00:00Z");
        let lane = Lane::Heartbeat("inbox".to_owned());
        let inbox = noted(lane, "every 60 s UTC", "2026-03-01T09:01:00.5Z");
        let all = vec![inbox, backup.clone()];
        notes.save_all(all.clone()).await.expect("saved");
        assert_eq!(open().read().await, all);

        let text = std::fs::read_to_string(&path).expect("read");
        assert!(
            text.contains(
                "- `cron:back %60up%60` (`0 9 * * * UTC`) up to `2026-03-01T09:00:00Z`.\n"
            ),
            "{text}"
        );
        let mended = text.replace("`heartbeat:inbox`", "`inbox`") + "\nA remark.\n";
        std::fs::write(&path, mended).expect("written");
        assert_eq!(notes.read().await, [backup]);
        notes.change(BTreeMap::clear).await.expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(
            text.contains("A remark.") && text.contains("`inbox`") && !text.contains("cron:"),
            "{text}"
        );
    }
}
