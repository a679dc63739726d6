//! The progress of a turn, which the task that sends its messages reads before each draft.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::activity::Activity;
use super::super::context::BotContext;
use super::super::question_messages::QuestionOperations;
use aetheel_model::agent::AgentEventKind;
use aetheel_model::fold::Transcript;

/// Pause between two edits that only add output of a running tool.
const OUTPUT_INTERVAL: Duration = Duration::from_secs(3);

pub(super) struct Progress {
    pub(super) transcript: Mutex<Transcript>,
    pub(super) activity: Mutex<Activity>,
    pub(super) operations: QuestionOperations,
    pub(super) changed: Notify,
    /// Notified when only the output of a tool changed.
    printed: Notify,
}

impl Progress {
    /// Starts with a turn without events.
    pub(super) fn new(inner: &Arc<BotContext>) -> Self {
        let now = (std::time::Instant::now(), Timestamp::now());
        Self {
            transcript: Mutex::default(),
            activity: Mutex::new(Activity::new(now, inner.options.time_limits.silence)),
            operations: QuestionOperations::new(inner),
            changed: Notify::new(),
            printed: Notify::new(),
        }
    }

    /// Applies an event of the agent. This costs time in proportion to the event's length. Copying
    /// the whole transcript would cost more.
    pub(super) fn apply(&self, event: &AgentEventKind) {
        self.transcript.lock().apply(event);
        self.activity.lock().apply(event, (std::time::Instant::now(), Timestamp::now()));
        if let AgentEventKind::ToolOutput(_) = event {
            self.printed.notify_one();
        } else {
            self.changed.notify_one();
        }
    }

    pub(super) fn text(&self) -> String {
        self.transcript.lock().text()
    }

    /// Waits until time or the output of a tool makes a new draft necessary: a tool has been running
    /// for a long time, or has then printed something, or the agent has been silent for a long time.
    pub(super) async fn draft_due(&self, shown: Instant) {
        let next_change = self.activity.lock().next_change(std::time::Instant::now());
        tokio::select! {
            () = until(next_change) => {}
            () = self.printed.notified() => {
                tokio::time::sleep_until(shown + OUTPUT_INTERVAL).await;
            }
        }
    }
}

/// Waits until a time. Never returns for `None`.
pub(super) async fn until(when: Option<std::time::Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when.into()).await,
        None => std::future::pending().await,
    }
}
