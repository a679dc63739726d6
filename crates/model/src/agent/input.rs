use serde::{Deserialize, Serialize};

use super::{ProcKey, SessionKey, TurnKey, is_nothing};

/// How much the agent may do without asking. Each level includes the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Safety {
    /// The agent asks before it changes anything. If it cannot ask, changes are denied.
    Default,
    /// The agent also edits files without asking.
    Edit,
    /// The agent does everything without asking.
    Danger,
}

/// The purpose of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The agent does the work.
    Build,
    /// The agent only reads and plans.
    Plan,
}

/// The choices of the operator and the channel for a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TurnSettings {
    pub model: Option<String>,
    pub safety: Safety,
    pub mode: Mode,
    pub effort: Option<String>,
    pub system_prompt: Option<String>,
    pub allowed_tools: Vec<String>,
    pub max_turns: Option<u32>,
    /// The backend's own options, as the text of a JSON object.
    pub options: String,
}

impl TurnSettings {
    /// Makes settings with a safety level and no other choices.
    #[must_use]
    pub fn plain(safety: Safety) -> Self {
        Self {
            model: None,
            safety,
            mode: Mode::Build,
            effort: None,
            system_prompt: None,
            allowed_tools: Vec::new(),
            max_turns: None,
            options: "{}".to_owned(),
        }
    }
}

/// A file that a person sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Attachment {
    pub blob: u32,
    pub name: String,
    pub media_type: String,
    /// Its size in bytes.
    pub size: u32,
    pub path: String,
}

/// A piece of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptPart {
    Text(String),
    Image(Attachment),
    File(Attachment),
}

/// A tool of the host that the agent may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostTool {
    pub name: String,
    pub description: String,
    /// The JSON Schema of the input, as text.
    pub input_schema: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StartTurn {
    pub session: SessionKey,
    pub turn: TurnKey,
    pub cwd: String,
    pub native_id: Option<String>,
    pub fork: bool,
    pub fresh_id: String,
    pub one_shot: bool,
    pub settings: TurnSettings,
    pub parts: Vec<PromptPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub tools: Vec<HostTool>,
}

impl StartTurn {
    /// Makes the first turn of a new session in `/`, without any choices.
    #[must_use]
    pub fn plain(prompt: &str, safety: Safety) -> Self {
        Self {
            session: 1,
            turn: 1,
            cwd: "/".to_owned(),
            native_id: None,
            fork: false,
            fresh_id: "00000000-0000-4000-8000-000000000000".to_owned(),
            one_shot: true,
            settings: TurnSettings::plain(safety),
            parts: vec![PromptPart::Text(prompt.to_owned())],
            agent_version: None,
            tools: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Steer {
    pub session: SessionKey,
    pub turn: TurnKey,
    pub message: u32,
    pub parts: Vec<PromptPart>,
    pub fresh_id: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TurnRef {
    pub session: SessionKey,
    pub turn: TurnKey,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskDecision {
    AllowOnce,
    AllowAlways,
    AllowChanged(String),
    Chosen(String),
    Deny(Option<String>),
    DenyAndStop,
    Answers(Vec<(String, Vec<String>)>),
    Declined,
    Dismissed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AskAnswer {
    pub ask: u32,
    pub decision: AskDecision,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryKind {
    Health,
    Models,
    Sessions,
    Compact,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentQuery {
    pub query: u32,
    pub session: Option<SessionKey>,
    pub kind: QueryKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Spawned {
    pub proc: ProcKey,
    pub agent_version: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SpawnFailed {
    pub proc: ProcKey,
    pub message: String,
    pub not_found: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pipe {
    Stdout,
    Stderr,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentLine {
    pub proc: ProcKey,
    pub pipe: Pipe,
    pub text: String,
    #[serde(default)]
    pub truncated: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    Code(u32),
    Signal(u32),
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Exited {
    pub proc: ProcKey,
    pub how: Exit,
    pub stderr_tail: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HttpResponse {
    pub request: u32,
    pub status: u32,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HttpFailed {
    pub request: u32,
    pub message: String,
    pub timed_out: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StreamOpened {
    pub stream: u32,
    pub status: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StreamEvent {
    pub stream: u32,
    pub name: Option<String>,
    pub id: Option<String>,
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StreamClosed {
    pub stream: u32,
    pub message: Option<String>,
}

/// The result of a call of a tool of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolResult {
    pub call: u32,
    pub text: String,
    pub failed: bool,
}

#[expect(
    clippy::large_enum_variant,
    reason = "the start of a turn is large, and a box would be in the way"
)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostCommand {
    StartTurn(StartTurn),
    Steer(Steer),
    Interrupt(TurnRef),
    Answer(AskAnswer),
    CloseSession(SessionKey),
    Query(AgentQuery),
    Shutdown,
}

/// An event that the host passes to a guest.
#[expect(
    clippy::large_enum_variant,
    reason = "the start of a turn is large, and a box would be in the way"
)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    Command(HostCommand),
    Spawned(Spawned),
    SpawnFailed(SpawnFailed),
    Line(AgentLine),
    Exited(Exited),
    HttpResponse(HttpResponse),
    HttpFailed(HttpFailed),
    StreamOpened(StreamOpened),
    StreamEvent(StreamEvent),
    StreamClosed(StreamClosed),
    Timer(u32),
    ToolResult(ToolResult),
}

/// An input and its time, in milliseconds since the link was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TimedInput {
    pub at_ms: f64,
    pub input: Input,
}
