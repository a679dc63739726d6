//! The port to agent processes. The product starts real processes; tests use scripted ones.
//!
//! A launcher may start its processes in a *holder*: a separate process that keeps agents and their
//! output while the gateway restarts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::{Reach, io_error, os_text};
use aetheel_model::agent::descriptor::Framing;
use aetheel_model::agent::{Exit, Pipe, Signal};

/// A checked request to start a process. The host decided everything in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The id of the run, for logs. It is also the end of the mark that all processes of the run
    /// have in their environment (`AETHEEL_RUN`). Must be unique if the launcher's processes
    /// outlive the gateway.
    pub run: String,
    /// The guest's key of the process, which is unique within the run.
    pub proc: u32,
    /// An absolute path, or a name to look up in `PATH`.
    #[serde(with = "os_text")]
    pub program: PathBuf,
    /// The arguments, without the program itself.
    #[serde(with = "os_text::list")]
    pub arguments: Vec<OsString>,
    /// The complete environment. Nothing is inherited.
    pub environment: Vec<(String, String)>,
    /// The working directory, which must exist.
    #[serde(with = "os_text")]
    pub cwd: PathBuf,
    /// Data that is written to stdin immediately.
    pub stdin: Vec<u8>,
    /// Whether stdin stays open afterwards.
    pub keep_open: bool,
    /// How messages are separated on stdin and stdout. Stderr always has lines.
    pub framing: Framing,
    /// Maximum length of a line in bytes. The rest of a longer line is dropped, and the line is
    /// marked.
    pub line_limit: usize,
    /// Number of bytes of stdout and stderr together after which the run is killed.
    pub output_limit: u64,
    /// The files that the process may access, for launchers that confine processes.
    pub reach: Reach,
}

/// One line of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLine {
    /// The pipe that the line came from.
    pub pipe: Pipe,
    /// The text without its terminator. Invalid UTF-8 is replaced.
    pub text: String,
    /// Whether the line was longer than the limit, so that its rest was dropped.
    pub truncated: bool,
}

/// An event of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Lines that arrived together, in order within each pipe. Never empty.
    Lines(Vec<OutputLine>),
    /// The output exceeded the limit, and the process is being killed. `Exited` follows.
    OutputLimit,
    /// The last event: all processes of the run have ended.
    Exited {
        /// How the first process of the run ended.
        how: Exit,
        /// The end of stderr: at most 64 KiB, without control sequences.
        stderr_tail: String,
    },
}

/// A command to a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessCommand {
    /// Writes data to stdin.
    Write(Vec<u8>),
    /// Closes stdin after everything that was written before.
    CloseStdin,
    /// Sends a signal to the process group, and kills what is left of it after `grace`.
    Stop {
        /// The first signal.
        signal: Signal,
        /// Time until SIGKILL.
        grace: Duration,
    },
    /// Confirms that this many lines of the process, counted from its first one, are recorded. The
    /// end of the process counts as one more line. A launcher whose processes outlive the gateway
    /// can then forget these lines. Other launchers ignore the command.
    Recorded(u64),
}

/// A running process. Dropping it kills all processes of its run.
#[derive(Debug)]
pub struct AgentProcess {
    /// The events of the process. The channel is bounded: a slow reader slows the process down.
    pub events: mpsc::Receiver<ProcessEvent>,
    /// Commands to the process. The channel is unbounded because commands are few. Commands to a
    /// process that has ended are lost without harm.
    pub commands: mpsc::UnboundedSender<ProcessCommand>,
    /// The id of the first process of the run, if there is one.
    pub pid: Option<u32>,
    /// Whether the process outlives the gateway; see [`Launcher::survivors`].
    pub held: bool,
}

/// A run whose processes outlived the gateway process that started them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// The id of the run ([`Launch::run`]).
    pub run: String,
    /// The latest data that [`Launcher::store_keepsake`] stored for the run; empty if it was not
    /// called.
    pub keepsake: Vec<u8>,
    /// How many gateway processes have asked for this run since lines of it were last confirmed. A
    /// high number suggests that the run crashes the gateway.
    pub attach_count: u32,
    /// The processes whose end is not confirmed, in the order of their keys.
    pub processes: Vec<SurvivingProcess>,
}

/// A process that outlived the gateway. It may have ended since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivingProcess {
    /// The key of the process ([`Launch::proc`]).
    pub proc: u32,
    /// The number of commands that the process received, without [`ProcessCommand::Recorded`].
    pub commands: u64,
    /// The number in the last [`ProcessCommand::Recorded`].
    pub recorded: u64,
}

/// The reason why a process did not start.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum LaunchError {
    /// The program does not exist.
    #[error("program not found: {}", .0.display())]
    NotFound(#[serde(with = "os_text")] PathBuf),
    /// The working directory does not exist.
    #[error("working directory not found: {}", .0.display())]
    NoDirectory(#[serde(with = "os_text")] PathBuf),
    /// The holder that should have started the process is lost, with all processes that it held.
    #[error("the process that holds agents ended before {} was started", .0.display())]
    HolderLost(#[serde(with = "os_text")] PathBuf),
    /// Any other error of the system.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program that could not be started.
        #[serde(with = "os_text")]
        program: PathBuf,
        /// The system's error.
        #[source]
        #[serde(with = "io_error")]
        source: std::io::Error,
    },
}

/// Starts agent processes.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Starts a process.
    ///
    /// # Errors
    /// [`LaunchError`] if the process cannot be started. Nothing is left behind then.
    async fn launch(&self, launch: Launch) -> Result<AgentProcess, LaunchError>;

    /// Returns a launcher for one link, bound to the holder that runs now. A lost holder is
    /// replaced first. The folders, keepsake and processes of the link all belong to this holder:
    /// once it is lost, launching fails, and nothing of the link reaches a later holder. Returns
    /// `None` if processes do not outlive the gateway.
    async fn bind(&self) -> Option<Arc<dyn Launcher>> {
        None
    }

    /// Returns whether processes of this launcher outlive the gateway.
    fn holds(&self) -> bool {
        false
    }

    /// Returns the prefix of the names of temporary folders that must exist as long as the
    /// processes.
    fn scratch_prefix(&self) -> String {
        "aetheel-".to_owned()
    }

    /// Returns the runs that a previous gateway process left. Each continues until it is taken over
    /// ([`Launcher::adopt`]) or ended ([`Launcher::end`]).
    async fn survivors(&self) -> Vec<Survivor> {
        Vec::new()
    }

    /// Takes over a process of a surviving run. The caller has already processed the first `lines`
    /// lines; the events begin after them.
    ///
    /// # Errors
    /// [`LaunchError`] if the process does not exist, or if lines after the first `lines` are no
    /// longer available.
    async fn adopt(&self, run: &str, proc: u32, lines: u64) -> Result<AgentProcess, LaunchError> {
        let _ = lines;
        Err(LaunchError::Start {
            program: PathBuf::from(format!("process {proc} of run {run}")),
            source: std::io::Error::other("processes of this launcher do not outlive the gateway"),
        })
    }

    /// Stores data for a run together with its processes, and replaces what was stored before.
    /// Returns immediately. The order relative to launches and commands is kept.
    fn store_keepsake(&self, run: &str, keepsake: Vec<u8>) {
        let _ = (run, keepsake);
    }

    /// Ends all processes of a run and forgets it. Returns immediately.
    fn end(&self, run: &str) {
        let _ = run;
    }
}
