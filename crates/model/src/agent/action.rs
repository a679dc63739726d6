use serde::{Deserialize, Serialize};

use super::ask::Ask;
use super::events::AgentEvent;
use super::notice::Diagnostic;
use super::report::{QueryAnswer, SessionReady, SteerResult, TurnDone};
use super::{ProcKey, SessionKey, TurnKey, TurnRef};

/// An argument or the value of a variable, assembled by the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArgumentValue {
    Text(String),
    File(String),
    Port,
    Secret(String),
    Inherit,
    ToolServer(SessionKey),
}

/// A piece of the body of a message, assembled by the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chunk {
    Text(String),
    Base64(u32),
    Secret(String),
    ToolServer(SessionKey),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentVariable {
    pub name: String,
    pub value: ArgumentValue,
}

/// The user and password with which the host identifies itself to a process that listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BasicAuth {
    pub user: String,
    /// Name of a secret of the link.
    pub secret: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Spawn {
    pub proc: ProcKey,
    pub program: String,
    pub arguments: Vec<ArgumentValue>,
    pub environment: Vec<AgentVariable>,
    pub stdin: Vec<Chunk>,
    pub keep_open: bool,
    pub listens: bool,
    pub basic_auth: Option<BasicAuth>,
    pub session: Option<SessionKey>,
    pub turn: Option<TurnKey>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Write {
    pub proc: ProcKey,
    pub body: Vec<Chunk>,
}

/// A signal that a guest may send to a process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    Interrupt,
    Terminate,
    Kill,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StopProcess {
    pub proc: ProcKey,
    pub signal: Signal,
    pub grace_ms: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PutFile {
    pub name: String,
    pub body: Vec<Chunk>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HttpRequest {
    pub request: u32,
    pub proc: ProcKey,
    pub method: String,
    pub path: String,
    pub body: Option<Vec<Chunk>>,
    pub timeout_ms: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OpenStream {
    pub stream: u32,
    pub proc: ProcKey,
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetTimer {
    pub timer: u32,
    pub after_ms: u32,
}

/// The agent calls a tool of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolRequest {
    pub call: u32,
    pub session: SessionKey,
    pub turn: TurnKey,
    pub name: String,
    /// The input as the text of a JSON object.
    pub input: String,
}

/// An action that a guest requests or reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    Spawn(Spawn),
    Write(Write),
    CloseStdin(ProcKey),
    Stop(StopProcess),
    PutFile(PutFile),
    Http(HttpRequest),
    OpenStream(OpenStream),
    CloseStream(u32),
    SetTimer(SetTimer),
    CancelTimer(u32),
    SessionReady(SessionReady),
    TurnBegun(TurnRef),
    Event(AgentEvent),
    Ask(Ask),
    AskWithdrawn(u32),
    Steered(SteerResult),
    TurnDone(TurnDone),
    QueryAnswer(QueryAnswer),
    Diagnostic(Diagnostic),
    ToolRequest(ToolRequest),
}
