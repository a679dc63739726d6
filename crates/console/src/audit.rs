//! Adds the actions of the person at the terminal to the audit log.

use aetheel_dispatch::{Dispatcher, Setting};
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

/// Returns the entry about a command that succeeded, or `None` if it changes neither the
/// conversation nor a setting.
pub(crate) fn of_command(line: &str) -> Option<AuditEntry> {
    let mut words = line.split_whitespace();
    let (command, value) = (words.next()?, words.next());
    let entry = |kind| AuditEntry::new(kind).in_lane(&Lane::Console);
    if command == "/compact" {
        return Some(entry(AuditKind::ConversationCompacted));
    }
    let setting = match (command, value?) {
        ("/sessions", "fork") => {
            let copied = entry(AuditKind::ConversationResumed).with("copy", "yes");
            return Some(copied.with_known("session", words.next()));
        }
        ("/sessions", id) => {
            return Some(entry(AuditKind::ConversationResumed).with("session", id));
        }
        ("/backend", _) => Setting::Backend.name(),
        ("/model", _) => Setting::Model.name(),
        ("/thinking", _) => Setting::Effort.name(),
        ("/safety", _) => Setting::Safety.name(),
        ("/mode", _) => Setting::Mode.name(),
        ("/project", _) => "project",
        _ => return None,
    };
    Some(entry(AuditKind::SettingChanged).with("setting", setting).with_known("value", value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_change_something_have_an_entry() {
        let entry = |line| {
            let AuditEntry { kind, mut fields } = of_command(line)?;
            assert_eq!(fields.remove("lane").as_deref(), Some("console"));
            Some(format!("{} {fields:?}", kind.word()))
        };
        for (line, expected) in [
            ("/compact", r#"conversation-compacted {}"#),
            ("/sessions ab12", r#"conversation-resumed {"session": "ab12"}"#),
            ("/sessions fork ab12", r#"conversation-resumed {"copy": "yes", "session": "ab12"}"#),
            ("/mode plan", r#"setting-changed {"setting": "mode", "value": "plan"}"#),
            ("/project  unset", r#"setting-changed {"setting": "project", "value": "unset"}"#),
        ] {
            assert_eq!(entry(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["", "/sessions", "/model", "/project", "/status", "/usage now", "hello there"]
        {
            assert_eq!(entry(line), None, "{line}");
        }
    }
}
