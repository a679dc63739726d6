//! Access to reports of one kind.

use super::report::{AgentEventKind, TextEvent, ToolEnd, ToolStart, Unrecognised};
use super::{Action, TurnKey};

impl AgentEventKind {
    /// Returns the text, if the event is a piece of the answer. Text of a sub-agent is not.
    #[must_use]
    pub fn answer(&self) -> Option<&TextEvent> {
        match self {
            Self::Text(text) if text.parent.is_none() => Some(text),
            _ => None,
        }
    }

    /// Returns the beginning of a tool use, if the event is one.
    #[must_use]
    pub fn tool_start(&self) -> Option<&ToolStart> {
        match self {
            Self::ToolStart(start) => Some(start),
            _ => None,
        }
    }

    /// Returns the end of a tool use, if the event is one.
    #[must_use]
    pub fn tool_end(&self) -> Option<&ToolEnd> {
        match self {
            Self::ToolEnd(end) => Some(end),
            _ => None,
        }
    }

    /// Returns the unknown output, if the event reports some.
    #[must_use]
    pub fn unrecognised(&self) -> Option<&Unrecognised> {
        match self {
            Self::Unrecognised(unknown) => Some(unknown),
            _ => None,
        }
    }
}

impl Action {
    /// Returns the unknown output that the action reports, if it reports some in this turn, or with
    /// `None` in any turn.
    #[must_use]
    pub fn unrecognised(&self, turn: Option<TurnKey>) -> Option<&Unrecognised> {
        match self {
            Self::Event(event) if turn.is_none_or(|turn| event.turn == turn) => {
                event.kind.unrecognised()
            }
            _ => None,
        }
    }
}
