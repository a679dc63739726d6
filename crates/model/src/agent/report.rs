use serde::{Deserialize, Serialize};

use super::{SessionKey, TurnKey};

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
    /// Whether the text replaces the output so far.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub replace: bool,
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

/// Returns whether a field that an older contract lacks has its default. Such a field is left out,
/// so that recordings stay unchanged.
pub(super) fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
