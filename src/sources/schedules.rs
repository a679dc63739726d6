//! The task that submits heartbeats and cron jobs when they are due, and follows changes of the
//! operator's files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::plan::{SchedulePlan, plan};
use aetheel_dispatch::{Dispatcher, Intake, PromptRefusal, Turns};
use aetheel_model::event::{EventKind, Lane};
use aetheel_model::id::ChannelId;
use aetheel_model::plain::with_causes;
use aetheel_model::schedule::{DueTick, ScheduleEntry, Timetable};
use aetheel_runtime::clock::Clock;
use aetheel_runtime::figures;
use aetheel_runtime::supervisor;
use aetheel_store::workspace::{CronJobs, Heartbeats, ScheduleProgress, Workspace};

/// Longest sleep. Changes of the files, and a clock that was set forward, are noticed at least this
/// often.
const MAX_SLEEP: SignedDuration = SignedDuration::from_secs(5);
/// How long [`RunningSchedules::stop`] waits for events that are being submitted.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Submits the events of heartbeats and cron jobs. The caller of [`Scheduler::step`] passes the
/// current time, for tests.
pub struct Scheduler {
    intake: Intake,
    turns: Turns,
    clock: Clock,
    workspace: Workspace,
    /// Time zone of entries without one.
    zone: TimeZone,
    /// Whether `OUTPUT_CHANNEL_ID` is set.
    has_output_channel: bool,
    timetable: Timetable,
    plan: SchedulePlan,
    /// The file contents from which the plan was built.
    files: Option<(Option<Arc<Heartbeats>>, Arc<CronJobs>)>,
    /// The content of `state/schedules.md`.
    saved: BTreeMap<Lane, ScheduleProgress>,
}

/// A running task of [`Scheduler::run`].
pub struct RunningSchedules {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RunningSchedules {
    pub(super) fn new(stop: CancellationToken, task: JoinHandle<()>) -> Self {
        Self { stop, task }
    }

    /// Stops the task. No event is submitted after this returns, after at most five seconds.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(STOP_GRACE, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Scheduler {
    /// Creates the schedules and reads `state/schedules.md`. The first step reads the other files.
    pub async fn new(
        dispatcher: &Dispatcher,
        workspace: Workspace,
        zone: TimeZone,
        output_channel: Option<ChannelId>,
    ) -> Self {
        let saved = workspace.state.schedules.read().await.into_iter();
        let saved = saved.map(|saved| (saved.lane.clone(), saved)).collect();
        let (timetable, plan) = (Timetable::default(), SchedulePlan::default());
        Self {
            intake: dispatcher.intake.clone(),
            turns: dispatcher.turns.clone(),
            clock: dispatcher.clock.clone(),
            workspace,
            zone,
            has_output_channel: output_channel.is_some(),
            timetable,
            plan,
            files: None,
            saved,
        }
    }

    /// Starts the task, which runs until it is stopped.
    #[must_use]
    pub fn run(mut self) -> RunningSchedules {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = supervisor::spawn_finite("schedules", async move {
            while !stopped.is_cancelled() {
                let began = Instant::now();
                let rest = self.step(self.clock.now()).await.saturating_sub(began.elapsed());
                tokio::select! {
                    () = stopped.cancelled() => return,
                    () = self.clock.sleep(rest) => {}
                }
            }
        });
        RunningSchedules { stop, task }
    }

    /// Reads the files if they changed, submits the events that are due at `now`, and saves them as
    /// handled once they are in the journal. Returns the time until the next step.
    pub async fn step(&mut self, now: Timestamp) -> Duration {
        self.read(now).await;
        let advance = self.timetable.advance(now);
        for lane in advance.restarted {
            tracing::warn!(%lane, "the clock was set back by more than a day: this schedule starts anew");
        }
        for passed in advance.missed {
            let runs = advance.due.iter().any(|due| due.lane == passed.lane);
            figures::schedule_skipped(kind_of(&passed.lane), "missed", passed.ticks);
            if runs {
                tracing::info!(lane = %passed.lane, ticks = passed.ticks, "ticks were missed; the last one runs once");
            } else {
                tracing::warn!(lane = %passed.lane, ticks = passed.ticks, reason = "missed", "skipped: their time has passed");
            }
        }
        let mut taken = Vec::new();
        for due in advance.due {
            if self.turns.is_busy(&due.lane) {
                tracing::info!(lane = %due.lane, tick = %due.tick, reason = "busy", "skipped: the previous one still runs or waits");
                figures::schedule_skipped(kind_of(&due.lane), "busy", 1);
                continue;
            }
            let Some(event) = self.plan.event(&due.lane, due.tick) else { continue };
            match self.intake.submit_or_route(event).await {
                Ok(placed) => taken.push((due, placed)),
                Err(refusal) => self.refused(&due, &refusal, now),
            }
        }
        // All events are submitted before the first wait, so that one write of the journal saves
        // them together.
        for (due, placed) in taken {
            match placed.wait_until_saved().await {
                Ok(event) => {
                    tracing::info!(lane = %due.lane, tick = %due.tick, event, "fired");
                    figures::schedule_fired(kind_of(&due.lane));
                }
                Err(refusal) => self.refused(&due, &refusal, now),
            }
        }
        self.save().await;
        let rest = self.timetable.next_wake().map_or(MAX_SLEEP, |wake| wake.duration_since(now));
        rest.clamp(SignedDuration::ZERO, MAX_SLEEP).unsigned_abs()
    }

    /// Handles an event that was refused. A cron job is tried again while it may still run late; a
    /// heartbeat is skipped.
    fn refused(&mut self, due: &DueTick, refusal: &PromptRefusal, now: Timestamp) {
        if *refusal == PromptRefusal::Known {
            // The previous process submitted it and ended before it could save that.
            tracing::debug!(lane = %due.lane, tick = %due.tick, "this tick was already submitted");
            return;
        }
        let passing = matches!(
            refusal,
            PromptRefusal::Busy { .. }
                | PromptRefusal::Full { .. }
                | PromptRefusal::ShuttingDown
                | PromptRefusal::NotSaved
        );
        let again = passing && matches!(due.lane, Lane::Cron(_));
        if again {
            tracing::warn!(lane = %due.lane, tick = %due.tick, "not accepted, trying again later: {refusal}");
            self.timetable.put_back(due, now);
        } else {
            tracing::warn!(lane = %due.lane, tick = %due.tick, reason = "refused", "skipped: {refusal}");
            figures::schedule_skipped(kind_of(&due.lane), "refused", 1);
        }
    }

    /// Builds a new plan if the files changed.
    async fn read(&mut self, now: Timestamp) {
        let (heartbeats, jobs) =
            (self.workspace.heartbeats().await, self.workspace.cron_jobs().await);
        if let Some((old_heartbeats, old_jobs)) = &self.files {
            let same = match (old_heartbeats, &heartbeats) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (None, None) => true,
                _ => false,
            };
            if same && Arc::ptr_eq(old_jobs, &jobs) {
                return;
            }
        }
        if heartbeats.is_none() {
            tracing::info!("there is no heartbeat.md: no heartbeats");
        }
        let old: BTreeMap<Lane, String> = self
            .timetable
            .progress()
            .map(|(planned, _)| (planned.lane.clone(), planned.description()))
            .collect();
        self.plan = plan(heartbeats.as_deref(), &jobs, &self.zone, self.has_output_channel, now);
        for warning in &self.plan.warnings {
            tracing::warn!("{warning}");
        }
        let saved = &self.saved;
        let known = |planned: &ScheduleEntry| {
            saved
                .get(&planned.lane)
                .filter(|noted| noted.schedule == planned.description())
                .map(|noted| noted.through)
        };
        self.timetable.replace(self.plan.planned.clone(), known, now);
        let new = |kind| {
            self.plan.planned.iter().filter(|planned| kind_of(&planned.lane) == kind).count()
        };
        tracing::info!(
            heartbeats = new(EventKind::Heartbeat),
            cron_jobs = new(EventKind::Cron),
            "schedules loaded"
        );
        for planned in &self.plan.planned {
            if old.get(&planned.lane) != Some(&planned.description()) {
                let next = self
                    .timetable
                    .next(&planned.lane)
                    .map(|next| next.to_zoned(planned.zone.clone()).to_string());
                tracing::info!(lane = %planned.lane, schedule = planned.description(), next, "scheduled");
            }
        }
        self.files = Some((heartbeats, jobs));
    }

    /// Saves the time up to which each schedule was handled.
    async fn save(&mut self) {
        let noted = |lane: &Lane, through| {
            self.saved.get(lane).is_some_and(|noted| noted.through == through)
        };
        if self.saved.len() == self.plan.planned.len()
            && self.timetable.progress().all(|(planned, through)| noted(&planned.lane, through))
        {
            return;
        }
        let through = self.timetable.progress();
        let all: BTreeMap<Lane, ScheduleProgress> = through
            .map(|(planned, through)| {
                let (lane, schedule) = (planned.lane.clone(), planned.description());
                (lane.clone(), ScheduleProgress { lane, schedule, through })
            })
            .collect();
        let current = all.clone();
        match self.workspace.state.schedules.change(move |saved| *saved = current).await {
            Ok(()) => self.saved = all,
            Err(error) => {
                tracing::warn!(error = %with_causes(&error), "cannot save state/schedules.md; after a restart a cron job may run again")
            }
        }
    }
}

fn kind_of(lane: &Lane) -> EventKind {
    if matches!(lane, Lane::Heartbeat(_)) { EventKind::Heartbeat } else { EventKind::Cron }
}
