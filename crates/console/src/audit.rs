//! Adds the actions of the person at the terminal to the audit log.

use aetheel_dispatch::Dispatcher;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::Lane;

/// Adds an action to the audit log.
pub(crate) fn note(kind: AuditKind) {
    AuditEntry::new(kind).in_lane(&Lane::Console).note();
}

/// Stops the turn of the console, and its waiting prompts. Returns whether there were any.
pub(crate) fn stop(dispatcher: &Dispatcher) -> bool {
    let stopped = dispatcher.turns.stop(&Lane::Console);
    if stopped {
        note(AuditKind::TurnStopped);
    }
    stopped
}
