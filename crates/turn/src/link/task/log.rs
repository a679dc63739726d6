//! The log of a link: the span of its lines, and the lines of its guest.

use super::Task;
use crate::recording::What;
use aetheel_model::agent::Level;

/// Number of log lines of a guest in one turn that keep their level. Further lines are logged at
/// debug level.
const REMARKS: u32 = 100;
/// Maximum number of dropped actions in one turn that are noted in the log and the recording.
const DROPPED: u32 = 100;

impl Task {
    /// Updates the span of the link. It includes the turn if only one is open. Must be called when
    /// turns or the generation change.
    pub(super) fn renew_span(&mut self) {
        let (link, backend, generation) =
            (self.parts.id.as_str(), self.name(), self.parts.backend.generation());
        // The span has the highest level so that it is always enabled. It has no parent, because it
        // does not belong to the turn that opened the link.
        self.span = match self.turns.only() {
            Some((open, session)) => {
                let (turn, event, lane) = (&open.id, open.event, &session.lane);
                tracing::error_span!(parent: None, "link", turn, event, %lane, backend, %generation, link)
            }
            None => tracing::error_span!(parent: None, "link", backend, %generation, link),
        };
    }

    /// Logs a line of the guest.
    pub(super) fn diagnostic(&mut self, level: Level, text: &str) {
        if self.rebuilding {
            return;
        }
        let text = text.escape_debug().to_string();
        self.spent.remarks = self.spent.remarks.saturating_add(1);
        if self.spent.remarks == REMARKS {
            tracing::warn!(
                "the backend logs too many lines; the rest of this turn is logged at debug only"
            );
        }
        match level {
            _ if self.spent.remarks >= REMARKS => tracing::debug!("backend says: {text}"),
            Level::Debug => tracing::debug!("backend says: {text}"),
            Level::Info => tracing::info!("backend says: {text}"),
            Level::Warn | Level::Error => tracing::warn!("backend says: {text}"),
        }
    }

    /// Notes an action that has no effect.
    pub(super) fn dropped(&mut self, what: &str, reason: &str) {
        if self.rebuilding || self.spent.dropped > DROPPED {
            return;
        }
        self.spent.dropped += 1;
        if self.spent.dropped > DROPPED {
            self.recording.host(What::Host("further dropped actions are not noted".to_owned()));
            return tracing::debug!("the backend's further dropped actions are not logged");
        }
        tracing::debug!(what, reason, "dropped an action of the backend");
        self.recording.host(What::Host(format!("dropped {what}: {reason}")));
    }
}
