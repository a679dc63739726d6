//! Reports of a guest about sessions, the ends of turns, failures, and answers to commands.

use serde::{Deserialize, Serialize};

use super::usage::Usage;
use super::{SessionKey, TurnKey, is_nothing};

/// The reason for a failure, in categories that people can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    NotFound,
    Authentication,
    RateLimited,
    Quota,
    Overloaded,
    Network,
    Configuration,
    BadRequest,
    ModelNotFound,
    ContextFull,
    SessionUnknown,
    Protocol,
    Crashed,
    TimedOut,
    Refused,
    Unsupported,
    Other,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentFailure {
    pub kind: FailureKind,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SessionReady {
    pub session: SessionKey,
    pub native_id: String,
    pub model: Option<String>,
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub tools: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SteerOutcome {
    Injected,
    Queued,
    NotNow,
    Dropped,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SteerResult {
    pub message: u32,
    pub outcome: SteerOutcome,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnOutcome {
    Completed,
    Interrupted,
    Failed(AgentFailure),
    Lost(AgentFailure),
    Limit(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TurnDone {
    pub session: SessionKey,
    pub turn: TurnKey,
    pub outcome: TurnOutcome,
    pub text: Option<String>,
    pub usage: Option<Usage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Model {
    pub id: String,
    pub label: String,
    pub efforts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SessionInfo {
    pub native_id: String,
    pub title: Option<String>,
    pub cwd: Option<String>,
    pub updated: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryResult {
    Health(String),
    Models(Vec<Model>),
    Sessions(Vec<SessionInfo>),
    Done,
    Failed(AgentFailure),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueryAnswer {
    pub query: u32,
    pub answer: QueryResult,
}
