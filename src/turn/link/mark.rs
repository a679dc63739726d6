//! The log of a link: what its lines are marked with, and what the guest adds.

use super::task::{Open, Seat, Task};
use crate::agent::Level;
use crate::turn::recording::What;

/// Lines of a guest in a turn that are logged as it wishes; further ones only at the level of
/// debugging.
const REMARKS: u32 = 100;

impl Task {
    /// Marks the lines to come: with the turn too, while there is only one. To be called when turns
    /// or generation change.
    pub(super) fn mark(&mut self) {
        let (link, backend, generation) =
            (self.parts.id.as_str(), self.name(), self.parts.backend.generation());
        let only = self.turns.values().next().filter(|_| self.turns.len() == 1);
        let seat = only.and_then(|open| self.sessions.get(&open.turn.session));
        // Of the highest level, and not below the turn that happened to open the link.
        self.span = match (only, seat) {
            (Some(Open { id, event, .. }), Some(Seat { lane, .. })) => {
                tracing::error_span!(parent: None, "link", turn = id, event, %lane, backend, %generation, link)
            }
            _ => tracing::error_span!(parent: None, "link", backend, %generation, link),
        };
    }

    /// Logs what the guest has to say.
    pub(super) fn diagnostic(&mut self, level: Level, text: &str) {
        let text = text.escape_debug().to_string();
        self.remarks = self.remarks.saturating_add(1);
        if self.remarks == REMARKS {
            tracing::warn!(
                "the backend has much to say; the rest of this turn is logged at debug only"
            );
        }
        match level {
            _ if self.remarks >= REMARKS => tracing::debug!("backend says: {text}"),
            Level::Debug => tracing::debug!("backend says: {text}"),
            Level::Info => tracing::info!("backend says: {text}"),
            Level::Warn | Level::Error => tracing::warn!("backend says: {text}"),
        }
    }

    /// Notes what the backend said in vain.
    pub(super) fn dropped(&mut self, what: &str, reason: &str) {
        tracing::debug!(what, reason, "dropped what the backend said");
        self.recording.host(What::Host(format!("dropped {what}: {reason}")));
    }
}
