use serde::{Deserialize, Serialize};

use super::tool_use::{FileDiff, ToolStart};
use super::{SessionKey, TurnKey, is_nothing};

/// An option to choose from. Recordings of the contract 0.1 contain only its label, which is also
/// its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", from = "RecordedChoice")]
pub struct QuestionChoice {
    pub id: String,
    pub label: String,
    pub description: Option<String>,
}

impl QuestionChoice {
    /// Makes an option whose label is also its id.
    #[must_use]
    pub fn plain(label: impl Into<String>) -> Self {
        let label = label.into();
        Self { id: label.clone(), label, description: None }
    }
}

impl From<&str> for QuestionChoice {
    fn from(label: &str) -> Self {
        Self::plain(label)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RecordedChoice {
    Plain(String),
    Whole { id: String, label: String, description: Option<String> },
}

impl From<RecordedChoice> for QuestionChoice {
    fn from(recorded: RecordedChoice) -> Self {
        match recorded {
            RecordedChoice::Plain(label) => Self::plain(label),
            RecordedChoice::Whole { id, label, description } => Self { id, label, description },
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerForm {
    #[default]
    Text,
    Number,
    Whole,
    YesNo,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Question {
    pub id: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub form: AnswerForm,
    pub options: Vec<QuestionChoice>,
    pub many: bool,
    pub free_text: bool,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub optional: bool,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub preset: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub single_line: bool,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub secret: bool,
}

/// How long a decision applies, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionScope {
    Once,
    Session,
    Project,
    User,
    Always,
}

/// One of the agent's own answers to its question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AskOption {
    pub id: String,
    pub label: String,
    pub allows: bool,
    pub scope: DecisionScope,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskKind {
    Permission(ToolStart),
    PlanApproval(String),
    Questions(Vec<Question>),
    SignIn(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ask {
    pub ask: u32,
    pub session: SessionKey,
    pub turn: TurnKey,
    pub title: String,
    pub kind: AskKind,
    pub always_label: Option<String>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub options: Vec<AskOption>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub diffs: Vec<FileDiff>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub changeable: bool,
    /// The tool use whose sub-agent asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The time after which the agent stops waiting, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
}
