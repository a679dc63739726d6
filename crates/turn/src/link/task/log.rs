//! The log of a link: the tracing span of its lines, and the log lines of its guest.

use tracing::Span;

use crate::link::LinkDeps;
use crate::link::action_error::ActionError;
use crate::link::turns::{LinkTurns, TurnNames};
use aetheel_model::agent::DiagnosticLevel;
use aetheel_model::plain::with_causes;
use aetheel_recording::{EntryKind, Recording};

/// Number of log lines of a guest in one turn that keep their level. Further lines are logged at
/// debug level.
const MAX_REMARKS: u32 = 100;
/// Maximum number of dropped actions in one turn that are noted in the log and the recording.
const MAX_DROPPED: u32 = 100;

/// The log of a link, with counters since the last turn began.
pub(super) struct LinkLog {
    /// The span of the link's log lines.
    pub(super) span: Span,
    /// The number of log lines of the guest.
    remarks: u32,
    /// The number of dropped actions.
    dropped: u32,
}

impl Default for LinkLog {
    fn default() -> Self {
        Self { span: Span::none(), remarks: 0, dropped: 0 }
    }
}

impl LinkLog {
    /// Resets the counters.
    pub(super) fn turn_begins(&mut self) {
        (self.remarks, self.dropped) = (0, 0);
    }

    /// Logs a line of the guest.
    pub(super) fn diagnostic(&mut self, level: DiagnosticLevel, text: &str) {
        let text = text.escape_debug().to_string();
        self.remarks = self.remarks.saturating_add(1);
        if self.remarks == MAX_REMARKS {
            tracing::warn!(
                "the backend logs too many lines; the rest of this turn is logged at debug only"
            );
        }
        match level {
            _ if self.remarks >= MAX_REMARKS => tracing::debug!("backend says: {text}"),
            DiagnosticLevel::Debug => tracing::debug!("backend says: {text}"),
            DiagnosticLevel::Info => tracing::info!("backend says: {text}"),
            DiagnosticLevel::Warn | DiagnosticLevel::Error => {
                tracing::warn!("backend says: {text}")
            }
        }
    }

    /// Updates the span of the link. It includes the turn if only one is open. Must be called when
    /// turns or the generation change.
    pub(super) fn renew_span(&mut self, deps: &LinkDeps, turns: &LinkTurns) {
        let (link, generation) = (deps.id.as_str(), deps.backend.generation());
        let backend = deps.backend.descriptor().name.as_str();
        // The span has the highest level so that it is always enabled. It has no parent, because it
        // does not belong to the turn that opened the link.
        self.span = match turns.only() {
            Some(TurnNames { id: turn, event, lane }) => {
                tracing::error_span!(parent: None, "link", turn, event, %lane, backend, %generation, link)
            }
            None => tracing::error_span!(parent: None, "link", backend, %generation, link),
        };
    }

    /// Notes an action that has no effect.
    pub(super) fn dropped(&mut self, what: &str, error: &ActionError, recording: &mut Recording) {
        if self.dropped > MAX_DROPPED {
            return;
        }
        self.dropped += 1;
        if self.dropped > MAX_DROPPED {
            recording.host(EntryKind::Host("further dropped actions are not noted".to_owned()));
            return tracing::debug!("the backend's further dropped actions are not logged");
        }
        let reason = with_causes(error);
        if what == "ask" {
            tracing::warn!(
                reason,
                hint = "`aetheel backend check` finds such mistakes",
                "refused a question of the agent: nobody is asked"
            );
        }
        tracing::debug!(what, reason, "dropped an action of the backend");
        recording.host(EntryKind::Host(dropped_note(what, error)));
    }
}

/// Returns the text with which a recording says that an action had no effect.
pub(super) fn dropped_note(what: &str, error: &ActionError) -> String {
    format!("dropped {what}: {}", with_causes(error))
}

/// Returns whether a text of a recording says that a command to a process was not sent.
pub(super) fn is_dropped_command(note: &str) -> bool {
    note.starts_with("dropped write: ") || note.starts_with("dropped process command: ")
}
