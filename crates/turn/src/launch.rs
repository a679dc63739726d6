//! The port behind which agent processes run: real ones in the product, scripted ones in tests.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::Reach;
use aetheel_model::agent::descriptor::Framing;
use aetheel_model::agent::{Exit, Pipe, Signal};

/// A checked request to start a process: everything in it was decided by the host.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Names the run in logs; also the end of the mark that all its processes carry (`AETHEEL_RUN`
    /// in their environment). Unique where the launcher holds what it starts.
    pub run: String,
    /// Tells it from the run's other processes: the guest's key of it.
    pub proc: u32,
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
    /// So many of its lines, from its first one on, are written down, and its end as one more: a
    /// launcher that holds processes need not keep them any longer. Means nothing to others.
    Recorded(u64),
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
    /// It outlives the gateway: see [`Launcher::survivors`].
    pub held: bool,
}

/// A run whose processes outlived the gateway that started them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// [`Launch::run`].
    pub run: String,
    /// What was last kept for it ([`Launcher::keep`]); empty: nothing was.
    pub keepsake: Vec<u8>,
    /// How many lives of the gateway have asked for it since it was last told that something is
    /// written down: it may be what kills them.
    pub asked: u32,
    /// Those that were not told to be over, in the order of their keys.
    pub processes: Vec<SurvivingProcess>,
}

/// A process that outlived the gateway; perhaps it has ended meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivingProcess {
    /// [`Launch::proc`].
    pub proc: u32,
    /// Commands it was given, [`ProcessCommand::Recorded`] not counted.
    pub commands: u64,
    /// The last [`ProcessCommand::Recorded`].
    pub recorded: u64,
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
    /// The holder that was to start it is lost, and everything that it held with it.
    #[error("the process that holds agents ended before {} was started", .0.display())]
    HolderLost(PathBuf),
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

    /// Returns a launcher for one link, bound to the holder that runs now; a lost holder is
    /// replaced first. Folders, keepsake and processes of the link all belong to that holder: once
    /// it is lost, launching fails, and nothing of the link reaches a later holder. Returns `None`
    /// if nothing is held.
    async fn bind(&self) -> Option<Arc<dyn Launcher>> {
        None
    }

    /// Whether what it starts outlives the gateway.
    fn holds(&self) -> bool {
        false
    }

    /// Returns the prefix of the names of temporary folders that live as long as what it starts.
    fn scratch(&self) -> String {
        "aetheel-".to_owned()
    }

    /// The runs that an earlier life of the gateway left. Each goes on until it is taken over
    /// ([`Launcher::adopt`]) or ended ([`Launcher::end`]).
    async fn survivors(&self) -> Vec<Survivor> {
        Vec::new()
    }

    /// Takes over a process of a surviving run. Its events are those after the first `heard` lines:
    /// the caller knows these, and whatever was to be done with them.
    ///
    /// # Errors
    /// It is not there, or lines after those are not kept any more.
    async fn adopt(&self, run: &str, proc: u32, heard: u64) -> Result<Process, LaunchError> {
        let _ = heard;
        Err(LaunchError::Start {
            program: PathBuf::from(format!("process {proc} of run {run}")),
            source: std::io::Error::other("nothing outlives this launcher"),
        })
    }

    /// Keeps something for a run beside its processes, in place of what was kept before. Returns at
    /// once; in order with what is launched and commanded.
    fn keep(&self, run: &str, keepsake: Vec<u8>) {
        let _ = (run, keepsake);
    }

    /// Ends all processes of a run and forgets it. Returns at once.
    fn end(&self, run: &str) {
        let _ = run;
    }
}
