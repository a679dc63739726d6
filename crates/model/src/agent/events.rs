//! The events of a turn: the agent's output and actions in one form for all backends.

use serde::{Deserialize, Serialize};

use super::notice::AgentNotice;
use super::report::AgentFailure;
use super::tool_use::{ToolEnd, ToolOutput, ToolStart};
use super::usage::{Quota, Usage};
use super::{Action, SessionKey, TurnKey, is_nothing};

/// One normalized output or action of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentEventKind {
    Text(TextEvent),
    Thinking(TextEvent),
    ToolStart(ToolStart),
    ToolOutput(ToolOutput),
    ToolEnd(ToolEnd),
    Plan(Vec<PlanEntry>),
    Usage(Usage),
    Artifact(Artifact),
    Task(AgentTask),
    Quota(Vec<Quota>),
    Retry(AgentFailure),
    Notice(AgentNotice),
    Compaction(Compaction),
    Mode(String),
    Title(String),
    Unrecognised(Unrecognised),
    /// Anything else. Only components of the contracts 0.1 and 0.2 report it.
    Raw(String),
}

/// An agent-event of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentEvent {
    pub session: SessionKey,
    pub turn: TurnKey,
    pub kind: AgentEventKind,
}

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

/// Text of an answer or of thinking. `part` distinguishes the texts of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TextEvent {
    pub part: u32,
    pub text: String,
    /// Whether the text replaces the whole part instead of extending it.
    #[serde(default)]
    pub replace: bool,
    /// The tool use whose sub-agent wrote the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanStatus {
    Pending,
    Active,
    Done,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanEntry {
    pub text: String,
    pub status: PlanStatus,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactBody {
    Base64(String),
    Text(String),
    Link(String),
}

/// An image, a file or a named resource of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Artifact {
    pub name: Option<String>,
    pub media_type: String,
    pub body: ArtifactBody,
    pub tool: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    Agent,
    Command,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskStatus {
    Running,
    Done,
    Failed,
    Stopped,
}

/// A sub-agent or a background task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentTask {
    pub id: String,
    pub kind: TaskKind,
    pub title: String,
    pub status: TaskStatus,
    pub tool: Option<String>,
    pub background: bool,
    pub summary: Option<String>,
}

/// How output differs from what the parser of a guest knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputDifference {
    #[default]
    Unknown,
    Missing,
    Changed,
}

impl OutputDifference {
    /// Returns a word for logs and reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Missing => "missing",
            Self::Changed => "changed",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Unrecognised {
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub difference: OutputDifference,
    pub what: String,
    pub path: Option<String>,
    pub sample: String,
}

/// The agent shortened the history of the session, or began to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Compaction {
    pub done: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u32>,
}

impl Compaction {
    /// Returns a line for people once the history is shorter.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let sizes = match (self.tokens_before, self.tokens_after) {
            (Some(before), Some(after)) => format!(" from {before} to {after} tokens"),
            (Some(before), None) => format!(" from {before} tokens"),
            (None, Some(after)) => format!(" to {after} tokens"),
            (None, None) => String::new(),
        };
        self.done.then(|| format!("The agent shortened the history of this conversation{sizes}."))
    }
}
