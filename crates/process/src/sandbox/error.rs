//! The reason why agents cannot be confined.

use std::io;
use std::path::PathBuf;

use super::NEEDED;
use crate::ProgramError;
use aetheel_turn::LinkError;

/// The reason why agents cannot be confined. The texts are for operators and contain the causes.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The operator selected Landlock, and this kernel has none, or an old version of it.
    #[error(
        "AGENT_SANDBOX=landlock: this kernel has {}; use Linux 6.2 or later with Landlock among its security modules, `bwrap`, or `off`",
        if *abi < 1 { "no Landlock".to_owned() } else { format!("Landlock version {abi}, needed is {NEEDED}") }
    )]
    OldLandlock {
        /// The version of Landlock in this kernel, or 0 or less.
        abi: i32,
    },
    /// The operator selected bubblewrap, and it does not work.
    #[error(
        "AGENT_SANDBOX=bwrap: {0}; install bubblewrap and allow user namespaces, or choose `landlock` or `off`"
    )]
    Bubblewrap(BubblewrapError),
    /// Agents could write to the gateway's own files.
    #[error(
        "{}, where agents may write, {} {}, which is the gateway's own; keep them apart",
        granted.display(),
        if *inside { "lies in" } else { "contains" },
        own.display()
    )]
    WritesOwnFiles {
        /// The granted path.
        granted: PathBuf,
        /// Whether the granted path is inside the gateway's path. Otherwise it contains that path.
        inside: bool,
        /// The path of the gateway.
        own: PathBuf,
    },
    /// Agents could read the gateway's own files.
    #[error(
        "{}, which agents may read, lies in {}, which is the gateway's own; keep them apart",
        granted.display(),
        own.display()
    )]
    ReadsOwnFiles {
        /// The granted path.
        granted: PathBuf,
        /// The path of the gateway.
        own: PathBuf,
    },
    /// A granted path leads through a link that an agent may have made.
    #[error(transparent)]
    Link(LinkError),
    /// The kernel refuses the ruleset.
    #[error("the kernel refuses the Landlock rules: {0}")]
    Ruleset(landlock::RulesetError),
    /// The kernel refuses the rule for a path.
    #[error("{}: the kernel refuses the Landlock rules: {error}", path.display())]
    Rule {
        /// The path.
        path: PathBuf,
        /// The reason.
        error: landlock::RulesetError,
    },
    /// The kernel did not create a ruleset.
    #[error("the kernel has no Landlock")]
    NoLandlock,
    /// There is no filter for the processor of this machine.
    #[error("the system call filter cannot be built: {0}")]
    Filter(&'static seccompiler::BackendError),
    /// The file with the filter cannot be created.
    #[error("the system call filter cannot be passed to bubblewrap: {0}")]
    FilterFile(io::Error),
}

/// The reason why bubblewrap does not work.
#[derive(Debug, thiserror::Error)]
pub enum BubblewrapError {
    /// The program is not installed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The program cannot be started.
    #[error("{} does not start: {error}", program.display())]
    Start {
        /// The path of the program.
        program: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The program ran and failed.
    #[error("{} does not work here: {message}", program.display())]
    Failed {
        /// The path of the program.
        program: PathBuf,
        /// The first line of its standard error.
        message: String,
    },
}
