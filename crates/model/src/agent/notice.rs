//! Lines for people and for the log, each with a level.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiagnosticLevel {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Diagnostic {
    pub level: DiagnosticLevel,
    pub text: String,
}

/// A line for people, in addition to the answer. A plain one is a string in recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "RecordedNotice", into = "RecordedNotice")]
pub struct AgentNotice {
    pub level: DiagnosticLevel,
    /// A later notice of the turn with the same key replaces this one.
    pub key: Option<String>,
    pub text: String,
}

impl From<String> for AgentNotice {
    fn from(text: String) -> Self {
        Self { level: DiagnosticLevel::Info, key: None, text }
    }
}

impl From<&str> for AgentNotice {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RecordedNotice {
    Plain(String),
    Whole {
        level: DiagnosticLevel,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        text: String,
    },
}

impl From<RecordedNotice> for AgentNotice {
    fn from(recorded: RecordedNotice) -> Self {
        match recorded {
            RecordedNotice::Plain(text) => text.into(),
            RecordedNotice::Whole { level, key, text } => Self { level, key, text },
        }
    }
}

impl From<AgentNotice> for RecordedNotice {
    fn from(AgentNotice { level, key, text }: AgentNotice) -> Self {
        match (level, key) {
            (DiagnosticLevel::Info, None) => Self::Plain(text),
            (level, key) => Self::Whole { level, key, text },
        }
    }
}
