//! The events of turns for observers: components that read them and write lines of their own.

use crate::agent::{AgentEventKind, ToolEnd, ToolStart, ToolStatus, Usage};
use crate::plain::clean_text;

/// Maximum length of a text in bytes.
const TEXT_LIMIT: usize = 2 << 10;

/// A turn, as events name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTurn {
    /// The correlation id.
    pub turn: String,
    /// The lane, as it is written in recordings.
    pub lane: String,
    /// The name of the backend.
    pub backend: String,
}

/// Something that happened in a turn. Its texts have no secrets and no control characters, and are
/// short.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedEvent {
    /// The turn.
    pub turn: ObservedTurn,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// The event.
    pub kind: ObservedKind,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq)]
pub enum ObservedKind {
    /// A turn begins, or continues after a restart.
    TurnBegun {
        /// The kind of event that asked.
        trigger: String,
        /// The id of the person who asked.
        person: Option<String>,
        /// The project of the channel.
        project: Option<String>,
        /// The version of the backend.
        backend_version: String,
        /// The requested model.
        model: Option<String>,
        /// Whether the turn began before a restart.
        is_resumed: bool,
        /// Milliseconds since the prompt was accepted, or `None` if the turn began before a
        /// restart.
        waited_ms: Option<u64>,
    },
    /// The agent uses a tool.
    ToolBegun {
        /// The agent's own id of the use.
        id: String,
        /// The use in which it is nested.
        parent: Option<String>,
        /// The unified kind.
        tool_kind: String,
        /// The agent's own name of the tool.
        tool: String,
        /// The file, command, address or pattern.
        target: Option<String>,
    },
    /// A tool use has ended.
    ToolEnded {
        /// The agent's own id of the use.
        id: String,
        /// The result.
        status: &'static str,
        /// The exit status of a command.
        exit_code: Option<u32>,
    },
    /// The agent asks people.
    QuestionOpened {
        /// The id of the question.
        question: String,
        /// The kind of the question.
        about: &'static str,
        /// One line for people.
        title: String,
    },
    /// A question is closed.
    QuestionClosed {
        /// The id of the question.
        question: String,
        /// The decision, or the reason without one.
        result: &'static str,
        /// The id of the person who decided.
        person: Option<String>,
    },
    /// Policies decided about a request.
    PolicyDecided {
        /// The agent's own name of the tool.
        tool: String,
        /// The file, command or address.
        target: Option<String>,
        /// The decision.
        effect: &'static str,
        /// The policy and its reason.
        reason: Option<String>,
    },
    /// A turn has ended.
    TurnEnded {
        /// How it ended.
        ending: &'static str,
        /// The reason of a failure.
        failure: Option<String>,
        /// Milliseconds from its beginning.
        took_ms: u64,
        /// The number of tool uses.
        tools: u32,
        /// The model that answered.
        model: Option<String>,
        /// Tokens and cost.
        usage: Option<Usage>,
    },
}

impl ObservedKind {
    /// Returns the observed kind of an agent's event, whose texts have no secrets, or `None` if
    /// observers do not see such events.
    #[must_use]
    pub fn of(event: &AgentEventKind) -> Option<Self> {
        match event {
            AgentEventKind::ToolStart(ToolStart {
                id, parent, kind, native_name, target, ..
            }) => Some(Self::ToolBegun {
                id: bounded(id),
                parent: parent.as_deref().map(bounded),
                tool_kind: bounded(kind),
                tool: bounded(native_name),
                target: target.as_deref().map(bounded),
            }),
            AgentEventKind::ToolEnd(ToolEnd { id, status, exit_code, .. }) => {
                let status = match status {
                    ToolStatus::Ok => "ok",
                    ToolStatus::Failed => "failed",
                    ToolStatus::Denied => "denied",
                    ToolStatus::Cancelled => "cancelled",
                    ToolStatus::Unknown => "unknown",
                };
                Some(Self::ToolEnded { id: bounded(id), status, exit_code: *exit_code })
            }
            _ => None,
        }
    }
}

/// Returns a text without control characters, cut to the limit.
#[must_use]
pub fn bounded(text: &str) -> String {
    let mut text = clean_text(text).into_owned();
    if text.len() > TEXT_LIMIT {
        text.truncate(text.floor_char_boundary(TEXT_LIMIT - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_events_are_plain_and_short() {
        let tool = ToolStart {
            id: "t".into(),
            parent: None,
            kind: "bash".into(),
            native_name: "Bash\u{1b}[2J".into(),
            title: String::new(),
            target: Some("é".repeat(5_000)),
            input: "{}".into(),
        };
        let Some(ObservedKind::ToolBegun { tool, target, .. }) =
            ObservedKind::of(&AgentEventKind::ToolStart(tool))
        else {
            panic!("a tool")
        };
        assert_eq!(tool, "Bash");
        let target = target.expect("a target");
        assert!(target.len() <= TEXT_LIMIT && target.ends_with('…'), "{}", target.len());
    }
}
