//! Builds the schedule from the operator's files `heartbeat.md` and `agents.md`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::ChannelId;
use aetheel_model::schedule::{MissedPolicy, Rhythm, ScheduleEntry};
use aetheel_store::workspace::{CronJobs, Heartbeats};

/// The schedule of heartbeats and cron jobs, with the instruction for the agent of each.
#[derive(Debug, Default)]
pub struct SchedulePlan {
    /// The heartbeats and cron jobs with their times.
    pub planned: Vec<ScheduleEntry>,
    /// Problems of the files, one line each.
    pub warnings: Vec<String>,
    tasks: BTreeMap<Lane, ScheduledTask>,
}

#[derive(Debug)]
struct ScheduledTask {
    kind: EventKind,
    instruction: String,
    channel: Option<ChannelId>,
}

/// Builds the schedule. `zone` is the time zone of entries without one. `placed` is whether
/// `OUTPUT_CHANNEL_ID` is set, so that answers without a channel can be delivered.
#[must_use]
pub fn plan(
    heartbeats: Option<&Heartbeats>,
    jobs: &CronJobs,
    zone: &TimeZone,
    placed: bool,
    now: Timestamp,
) -> SchedulePlan {
    let mut plan = SchedulePlan::default();
    plan.warnings.extend(
        heartbeats
            .into_iter()
            .flat_map(|heartbeats| &heartbeats.warnings)
            .chain(&jobs.warnings)
            .cloned(),
    );
    for check in heartbeats.into_iter().flat_map(|heartbeats| &heartbeats.checks) {
        let planned = ScheduleEntry {
            lane: Lane::Heartbeat(check.name.clone()),
            rhythm: Rhythm::Heartbeat(check.heartbeat.clone()),
            zone: check.zone.clone().unwrap_or_else(|| zone.clone()),
            missed: MissedPolicy::Skip,
        };
        let task = ScheduledTask {
            kind: EventKind::Heartbeat,
            instruction: check.instruction.clone(),
            channel: check.channel,
        };
        plan.add(
            planned,
            task,
            &format!("heartbeat.md line {}: heartbeat {:?}", check.line, check.name),
            placed,
            now,
        );
    }
    for job in &jobs.jobs {
        let planned = ScheduleEntry {
            lane: Lane::Cron(job.name.clone()),
            rhythm: Rhythm::Cron(job.expression.clone()),
            zone: job.zone.clone().unwrap_or_else(|| zone.clone()),
            missed: job.missed,
        };
        let task = ScheduledTask {
            kind: EventKind::Cron,
            instruction: job.instruction.clone(),
            channel: job.channel,
        };
        plan.add(
            planned,
            task,
            &format!("agents.md line {}: cron job {:?}", job.line, job.name),
            placed,
            now,
        );
    }
    plan
}

impl SchedulePlan {
    fn add(
        &mut self,
        planned: ScheduleEntry,
        task: ScheduledTask,
        what: &str,
        placed: bool,
        now: Timestamp,
    ) {
        if planned.rhythm.next(now, &planned.zone).is_none() {
            self.warnings.push(format!("{what} is left out: `{}` never occurs", planned.rhythm));
            return;
        }
        if task.channel.is_none() && !placed {
            self.warnings
                .push(format!("{what} has no `channel`, and OUTPUT_CHANNEL_ID is not set: its answers are only in the recordings"));
        }
        self.tasks.insert(planned.lane.clone(), task);
        self.planned.push(planned);
    }

    /// Returns the instruction of an entry, and the channel for its answer. Returns `None` if the
    /// schedule does not contain the lane.
    #[must_use]
    pub fn instruction(&self, lane: &Lane) -> Option<(&str, Option<ChannelId>)> {
        self.tasks.get(lane).map(|task| (task.instruction.as_str(), task.channel))
    }

    /// Returns the event of a tick, or `None` if the schedule does not contain the lane.
    #[must_use]
    pub fn event(&self, lane: &Lane, tick: Timestamp) -> Option<NewEvent> {
        let ScheduledTask { kind, instruction, channel } = self.tasks.get(lane)?;
        let mut event = NewEvent::new(
            *kind,
            lane.clone(),
            EventOrigin::Internal { channel: *channel },
            instruction.as_str(),
        );
        event.key = Some(format!("{lane}:{tick}"));
        Some(event)
    }
}
