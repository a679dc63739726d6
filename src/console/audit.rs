//! Adds the actions of the person at the terminal to the audit log.

use crate::audit::{AuditEntry, AuditKind};
use crate::dispatch::Dispatcher;
use crate::event::Lane;

/// Adds an action to the audit log.
pub(super) fn note(kind: AuditKind) {
    AuditEntry::new(kind).in_lane(&Lane::Console).note();
}

/// Stops the turn of the console, and its waiting prompts. Returns whether there were any.
pub(super) fn stop(dispatcher: &Dispatcher) -> bool {
    let stopped = dispatcher.turns.stop(&Lane::Console);
    if stopped {
        note(AuditKind::TurnStopped);
    }
    stopped
}
