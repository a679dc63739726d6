//! The port behind which agent processes run: real ones in the product, scripted ones in tests.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::Reach;
use crate::agent::descriptor::Framing;
use crate::agent::{Exit, Pipe, Signal};

/// A checked request to start a process: everything in it was decided by the host.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Names the run in logs; also the end of the mark that all its processes carry (`AETHEEL_RUN`
    /// in their environment). Need not be unique.
    pub run: String,
    /// Absolute path, or a name to look up in `PATH`.
    pub program: PathBuf,
    /// Without the program itself.
    pub arguments: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub environment: Vec<(String, String)>,
    /// Working directory; must exist.
    pub cwd: PathBuf,
    /// Written to stdin at once.
    pub stdin: Vec<u8>,
    /// Keep stdin open afterwards.
    pub keep_open: bool,
    /// How messages are told apart on stdin and stdout; stderr has lines.
    pub framing: Framing,
    /// Longest line in bytes; the rest of a longer one is dropped and the line marked.
    pub line_limit: usize,
    /// Bytes of stdout and stderr together after which the run is killed.
    pub output_limit: u64,
    /// Its reach, where the launcher confines what it starts.
    pub reach: Reach,
}

/// One line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// Where it came from.
    pub pipe: Pipe,
    /// Without terminator; invalid UTF-8 replaced.
    pub text: String,
    /// Longer than the limit; the rest is gone.
    pub truncated: bool,
}

/// An event of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Lines that arrived together, in order within each pipe. Never empty.
    Lines(Vec<OutputLine>),
    /// More output than the limit; the process is being killed. `Exited` follows.
    OutputLimit,
    /// The last event: no process of the run exists any more.
    Exited {
        /// How the leader ended.
        how: Exit,
        /// End of stderr, at most 64 KiB, control sequences removed.
        stderr_tail: String,
    },
}

/// A command to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessCommand {
    /// Writes more to stdin.
    Write(Vec<u8>),
    /// End of stdin, after what was written.
    CloseStdin,
    /// Signals the group, and kills all that is left after `grace`.
    Stop {
        /// The signal to begin with.
        signal: Signal,
        /// Time until SIGKILL.
        grace: Duration,
    },
}

/// A running process. Dropping it kills everything of the run.
#[derive(Debug)]
pub struct Process {
    /// Its events. Bounded: a slow reader slows the process down.
    pub events: mpsc::Receiver<ProcessEvent>,
    /// Commands to it; unbounded because they are few. Commands to a dead process are lost
    /// without harm.
    pub commands: mpsc::UnboundedSender<ProcessCommand>,
    /// The leader's process id, where there is one.
    pub pid: Option<u32>,
}

/// Why a process did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such program.
    #[error("program not found: {}", .0.display())]
    NotFound(PathBuf),
    /// The working directory does not exist.
    #[error("working directory not found: {}", .0.display())]
    NoDirectory(PathBuf),
    /// Anything else the system said.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program that was to be started.
        program: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

/// Starts agent processes as they were planned and checked.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Starts one.
    ///
    /// # Errors
    /// [`LaunchError`]; nothing is left behind.
    async fn launch(&self, launch: Launch) -> Result<Process, LaunchError>;
}
