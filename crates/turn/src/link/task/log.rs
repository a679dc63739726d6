//! The log of a link: what marks its lines, and what the guest adds.

use super::Task;
use crate::recording::What;
use aetheel_model::agent::Level;

/// Lines of a guest in a turn that are logged as it wishes; further ones only at the level of
/// debugging.
const REMARKS: u32 = 100;
/// Dropped actions in a turn that are noted in the log and the recording.
const DROPPED: u32 = 100;

impl Task {
    /// Marks the lines to come: with the turn too, while there is only one. To be called when turns
    /// or generation change.
    pub(super) fn renew_span(&mut self) {
        let (link, backend, generation) =
            (self.parts.id.as_str(), self.name(), self.parts.backend.generation());
        // Its level is the highest, and it is not below the turn that happened to open the link.
        self.span = match self.turns.only() {
            Some((open, session)) => {
                let (turn, event, lane) = (&open.id, open.event, &session.lane);
                tracing::error_span!(parent: None, "link", turn, event, %lane, backend, %generation, link)
            }
            None => tracing::error_span!(parent: None, "link", backend, %generation, link),
        };
    }

    /// Logs what the guest has to say.
    pub(super) fn diagnostic(&mut self, level: Level, text: &str) {
        if self.rebuilding {
            return;
        }
        let text = text.escape_debug().to_string();
        self.spent.remarks = self.spent.remarks.saturating_add(1);
        if self.spent.remarks == REMARKS {
            tracing::warn!(
                "the backend has much to say; the rest of this turn is logged at debug only"
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
        tracing::debug!(what, reason, "dropped what the backend said");
        self.recording.host(What::Host(format!("dropped {what}: {reason}")));
    }
}
