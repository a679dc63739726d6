//! The reason why an action of a guest is not performed.

use std::io;

use super::limits::{AT_ONCE, DELIVERIES, FILE_SIZE, FILES, SECRETS, STARTS};
use crate::PlanFault;
use aetheel_model::agent::{ProcKey, TurnRef};

/// The reason why an action of a guest is not performed. The guest, the log and the recording get
/// the text with its causes.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActionError {
    /// Another process runs under this key.
    #[error("process {0} is running already")]
    ProcessRunning(ProcKey),
    /// The turn or the link has reached its limit of processes.
    #[error("a turn starts at most {STARTS} processes, and a link has {AT_ONCE} at a time")]
    TooManyProcesses,
    /// The process has not been started, or has ended.
    #[error("the process is not running")]
    NotRunning,
    /// The process has no port.
    #[error("the process was not started with `listens`")]
    NotListening,
    /// The link starts no processes any more.
    #[error("the link is ending")]
    LinkEnding,
    /// The system has no port for a process that listens.
    #[error("no loopback port is free")]
    NoPort(#[source] io::Error),
    /// The process is not what the descriptor declares.
    #[error("the backend's plan was refused")]
    Plan(#[from] PlanFault),
    /// The private folder of the link cannot be created.
    #[error("no temporary folder can be created")]
    Folder(#[source] io::Error),
    /// The file cannot be written.
    #[error(transparent)]
    Write(io::Error),
    /// The name has other characters than letters, digits and `.-_`, or is too long.
    #[error("{0:?} is not a plain file name")]
    FileName(String),
    /// The file is too large, or the link has put the maximum number of files.
    #[error("a link may put {FILES} files of {FILE_SIZE} bytes")]
    TooManyFiles,
    /// The name is too long, or the link has the maximum number of secrets.
    #[error("a link has at most {SECRETS} secrets with names of 64 bytes")]
    TooManySecrets,
    /// The host does not run a server for tools.
    #[error("this gateway has no server for tools")]
    NoToolServer,
    /// No open turn has an attachment with this key.
    #[error("there is no blob {0}")]
    NoBlob(u32),
    /// The attachment with this key was sent too often.
    #[error("blob {0} was sent {DELIVERIES} times already")]
    BlobUsedUp(u32),
    /// The request names a host, or has control characters in its path.
    #[error("{0:?} is not a path")]
    Path(String),
    /// HTTP has no such method.
    #[error("{0:?} is not a method")]
    Method(String),
    /// The client for HTTP cannot be created.
    #[error("no HTTP here")]
    Http(#[source] &'static reqwest::Error),
    /// The session has no open turn.
    #[error("its session has no open turn")]
    NoOpenTurn,
    /// The guest uses the key of an open call again.
    #[error("call {0} is open already")]
    CallOpen(u32),
    /// The guest uses the key of an open question again, or a key of the host's own questions.
    #[error("the key {0:#x} of the question is in use, or not below 0x80000000")]
    AskKey(u32),
    /// The agent has too many open turns that it began by itself.
    #[error("the agent begins too many turns by itself")]
    TooManyUnsolicited,
    /// A turn that the agent began by itself has no session, or a key of the host.
    #[error("its session is not open, or its key is too low")]
    BadUnsolicited,
    /// The guest ended the turn before.
    #[error("the turn has ended")]
    TurnEnded,
    /// The turn does not exist, or belongs to another session.
    #[error("it names turn {} of session {}, which is not open", .0.turn, .0.session)]
    TurnNotOpen(TurnRef),
}
