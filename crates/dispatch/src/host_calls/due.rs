//! Submits the turns that agents asked for, when their time has come, and shows and removes them.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::schedule::parse;
use super::submit;
use crate::Shared;
use crate::channel::effective::offered_tools;
use crate::outlet::messages::PromptRefusal;
use aetheel_model::event::{AgentCause, AgentRequest, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::AgentSchedule;

/// The longest time until the next look. A changed file is noticed at least this often.
const MAX_REST: SignedDuration = SignedDuration::from_secs(5);

/// The turns that agents asked for at later times. Cheap to clone.
#[derive(Clone)]
pub struct LaterTurns {
    shared: Arc<Shared>,
}

impl LaterTurns {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the turns that agents asked for in a lane, the next one first.
    #[must_use]
    pub fn in_lane(&self, lane: &Lane) -> Vec<AgentSchedule> {
        let mut open = self.all();
        open.retain(|entry| entry.lane == *lane);
        open
    }

    /// Returns the turns that agents asked for in all lanes of this machine, the next one first.
    #[must_use]
    pub fn all(&self) -> Vec<AgentSchedule> {
        let mut open = self.shared.deps.workspace.state.agent_schedules.all();
        open.retain(|entry| entry.next.is_some());
        open.sort_by_key(|entry| entry.next);
        open
    }

    /// Removes a turn that an agent asked for in a lane. Returns false if there is no such turn.
    pub async fn remove(&self, lane: &Lane, id: &str) -> bool {
        let is_open = self.in_lane(lane).iter().any(|entry| entry.id == id);
        if is_open {
            tracing::info!(%lane, id, "a turn that an agent asked for was removed");
            self.set_next(id, None, self.shared.now()).await;
        }
        is_open
    }

    /// Submits the turns that are due. Returns the time until the next call.
    pub async fn submit_due(&self, now: Timestamp) -> Duration {
        let mut rest = MAX_REST;
        for entry in self.shared.deps.workspace.state.agent_schedules.read().await {
            match entry.next {
                Some(next) if next <= now => self.submit(&entry, next, now).await,
                Some(next) => rest = rest.min(next.duration_since(now)),
                None => {}
            }
        }
        rest.max(SignedDuration::ZERO).unsigned_abs()
    }

    async fn submit(&self, entry: &AgentSchedule, tick: Timestamp, now: Timestamp) {
        let AgentSchedule { id, lane, cause, .. } = entry;
        if now > entry.until {
            tracing::warn!(%lane, id, ?cause, "a turn that an agent asked for is dropped: it is too late");
            return self.set_next(id, None, now).await;
        }
        if let (Lane::Channel(channel), Some(parent)) = (lane, entry.parent) {
            self.shared.channels.parents.learn(*channel, parent);
        }
        let (_, settings) = self.shared.channels.backend_of(lane).await;
        if !offered_tools(&self.shared.deps.choices, &settings, None).contains(&tool_of(*cause)) {
            tracing::warn!(%lane, id, ?cause, "a turn that an agent asked for is dropped: the channel no longer has the tool; see `host-tools` in channels.md");
            return self.set_next(id, None, now).await;
        }
        if entry.cron.is_some() && self.shared.lanes.is_busy(lane) {
            tracing::info!(%lane, id, reason = "busy", "skipped: another turn of the channel runs or waits");
            return self.set_next(id, next_after(entry, now), now).await;
        }
        match submit(&self.shared, event(entry, tick)).await {
            Ok(()) => {
                tracing::info!(%lane, id, ?cause, %tick, "a turn that an agent asked for begins")
            }
            // The previous process submitted it and ended before it could save that.
            Err(PromptRefusal::Known) => {}
            Err(refusal @ PromptRefusal::TooLong { .. }) => {
                tracing::warn!(%lane, id, ?cause, "a turn that an agent asked for is dropped: {refusal}");
            }
            Err(refusal) => {
                tracing::info!(%lane, id, ?cause, "not accepted, trying again later: {refusal}");
                return;
            }
        }
        self.set_next(id, next_after(entry, now), now).await;
    }

    async fn set_next(&self, id: &str, next: Option<Timestamp>, now: Timestamp) {
        let notes = &self.shared.deps.workspace.state.agent_schedules;
        if let Err(error) = notes.set_next(id.to_owned(), next, now).await {
            tracing::error!(id, error = %with_causes(&error), "cannot save state/agent-schedules.md");
        }
    }
}

/// Returns the next time of an entry, or `None` if it has no further turn.
fn next_after(entry: &AgentSchedule, now: Timestamp) -> Option<Timestamp> {
    let (cron, zone) = parse(entry.cron.as_ref()?).ok()?;
    cron.next(now, &zone).filter(|next| *next <= entry.until)
}

fn event(entry: &AgentSchedule, tick: Timestamp) -> NewEvent {
    NewEvent {
        asker: entry.asker,
        parent: entry.parent,
        key: Some(format!("agent-schedule:{}:{tick}", entry.id)),
        by_agent: Some(Box::new(AgentRequest {
            cause: entry.cause,
            from: entry.lane.clone(),
            hops: 0,
            naps: entry.naps,
            backend: None,
            rights: None,
        })),
        ..NewEvent::new(
            EventKind::Agent,
            entry.lane.clone(),
            EventOrigin::Internal { channel: entry.lane.channel() },
            entry.text.clone(),
        )
    }
}

fn tool_of(cause: AgentCause) -> HostToolKind {
    match cause {
        AgentCause::HandOff => HostToolKind::HandOff,
        AgentCause::Reminder => HostToolKind::Remind,
        AgentCause::Schedule => HostToolKind::Schedule,
        AgentCause::Sleep => HostToolKind::SleepUntil,
    }
}
