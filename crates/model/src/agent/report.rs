use serde::{Deserialize, Serialize};

use super::{SessionKey, TurnKey};

/// The reason for a failure, in categories that people can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    NotFound,
    Authentication,
    RateLimited,
    Overloaded,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileChange {
    #[default]
    Edited,
    Added,
    Deleted,
    Renamed,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileDiff {
    pub path: String,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub change: FileChange,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub binary: bool,
    pub old_text: Option<String>,
    pub new_text: Option<String>,
    pub unified: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolStart {
    pub id: String,
    pub parent: Option<String>,
    /// One of the unified kinds of `wit/types.wit`.
    pub kind: String,
    pub native_name: String,
    pub title: String,
    pub target: Option<String>,
    /// The tool's input as JSON text.
    pub input: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolOutput {
    pub id: String,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolStatus {
    Ok,
    Failed,
    Denied,
    Cancelled,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolEnd {
    pub id: String,
    pub status: ToolStatus,
    pub output: Option<String>,
    pub exit_code: Option<u32>,
    pub diffs: Vec<FileDiff>,
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

/// The tokens one model used in a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelUsage {
    pub model: String,
    pub input: u32,
    pub output: u32,
    pub cached: u32,
    pub cache_write: u32,
    pub cost_usd: Option<f64>,
}

/// Tokens and money of one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Usage {
    pub input: u32,
    pub output: u32,
    pub cached: u32,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cache_write: u32,
    pub reasoning: u32,
    pub cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub models: Vec<ModelUsage>,
    pub context_used: Option<u32>,
    pub context_size: Option<u32>,
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

/// How much of an allowance is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quota {
    pub id: String,
    pub label: String,
    pub used_percent: Option<f64>,
    pub resets: Option<String>,
    pub exhausted: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Unrecognised {
    pub what: String,
    pub path: Option<String>,
    pub sample: String,
}

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
    Notice(String),
    Mode(String),
    Title(String),
    Unrecognised(Unrecognised),
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
    Raw(String),
    Failed(AgentFailure),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueryAnswer {
    pub query: u32,
    pub answer: QueryResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Returns whether a field that the contract 0.1 lacked has its default. Such a field is left out,
/// so that recordings stay unchanged.
pub(super) fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
