//! The serialized forms of requests, errors and surviving runs.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Sandbox;
use aetheel_model::agent::descriptor::Framing;
use aetheel_turn::{Launch, LaunchError, Reach, SurvivingProcess, Survivor};

/// A path or an argument, which may not be valid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum WireString {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<OsString> for WireString {
    fn from(text: OsString) -> Self {
        text.into_string().map_or_else(|text| Self::Bytes(text.into_vec()), Self::Text)
    }
}

impl From<&Path> for WireString {
    fn from(path: &Path) -> Self {
        path.to_str().map_or_else(
            || Self::Bytes(path.as_os_str().as_bytes().to_vec()),
            |text| Self::Text(text.to_owned()),
        )
    }
}

impl From<WireString> for OsString {
    fn from(raw: WireString) -> Self {
        match raw {
            WireString::Text(text) => text.into(),
            WireString::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

impl From<WireString> for PathBuf {
    fn from(raw: WireString) -> Self {
        OsString::from(raw).into()
    }
}

fn raws(paths: &[PathBuf]) -> Vec<WireString> {
    paths.iter().map(|path| WireString::from(path.as_path())).collect()
}

fn paths(raws: Vec<WireString>) -> Vec<PathBuf> {
    raws.into_iter().map(PathBuf::from).collect()
}

/// The serialized form of [`Launch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireLaunch {
    pub(super) run: String,
    pub(super) proc: u32,
    program: WireString,
    arguments: Vec<WireString>,
    environment: Vec<(String, String)>,
    cwd: WireString,
    /// Sent separately, because it may be long.
    #[serde(skip)]
    pub(super) stdin: Vec<u8>,
    keep_open: bool,
    framing: Framing,
    line_limit: usize,
    output_limit: u64,
    reach: WireReach,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WireReach {
    programs: Vec<WireString>,
    read: Vec<WireString>,
    write: Vec<WireString>,
    hidden: Vec<WireString>,
    #[serde(rename = "kept")]
    read_only: Vec<WireString>,
    /// A gateway of an earlier version does not send it.
    #[serde(default)]
    agent_folders: Vec<WireString>,
    own_sandbox: bool,
}

impl From<Launch> for WireLaunch {
    fn from(launch: Launch) -> Self {
        let reach = &launch.reach;
        Self {
            reach: WireReach {
                programs: raws(&reach.programs),
                read: raws(&reach.read),
                write: raws(&reach.write),
                hidden: raws(&reach.hidden),
                read_only: raws(&reach.read_only),
                agent_folders: raws(&reach.agent_folders),
                own_sandbox: reach.own_sandbox,
            },
            run: launch.run,
            proc: launch.proc,
            program: launch.program.into_os_string().into(),
            arguments: launch.arguments.into_iter().map(WireString::from).collect(),
            environment: launch.environment,
            cwd: launch.cwd.into_os_string().into(),
            stdin: launch.stdin,
            keep_open: launch.keep_open,
            framing: launch.framing,
            line_limit: launch.line_limit,
            output_limit: launch.output_limit,
        }
    }
}

impl From<WireLaunch> for Launch {
    fn from(launch: WireLaunch) -> Self {
        let reach = launch.reach;
        Self {
            run: launch.run,
            proc: launch.proc,
            program: launch.program.into(),
            arguments: launch.arguments.into_iter().map(OsString::from).collect(),
            environment: launch.environment,
            cwd: launch.cwd.into(),
            stdin: launch.stdin,
            keep_open: launch.keep_open,
            framing: launch.framing,
            line_limit: launch.line_limit,
            output_limit: launch.output_limit,
            reach: Reach {
                programs: paths(reach.programs),
                read: paths(reach.read),
                write: paths(reach.write),
                hidden: paths(reach.hidden),
                read_only: paths(reach.read_only),
                agent_folders: paths(reach.agent_folders),
                own_sandbox: reach.own_sandbox,
            },
        }
    }
}

/// The serialized form of [`Sandbox`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WireSandbox {
    Off,
    Landlock { abi: i32, bubblewrap: Option<WireString> },
    Bubblewrap(WireString),
}

impl From<&Sandbox> for WireSandbox {
    fn from(sandbox: &Sandbox) -> Self {
        match sandbox {
            Sandbox::Off => Self::Off,
            Sandbox::Landlock { abi, bubblewrap } => Self::Landlock {
                abi: *abi,
                bubblewrap: bubblewrap.as_deref().map(WireString::from),
            },
            Sandbox::Bubblewrap(program) => Self::Bubblewrap(program.as_path().into()),
        }
    }
}

impl From<WireSandbox> for Sandbox {
    fn from(sandbox: WireSandbox) -> Self {
        match sandbox {
            WireSandbox::Off => Self::Off,
            WireSandbox::Landlock { abi, bubblewrap } => {
                Self::Landlock { abi, bubblewrap: bubblewrap.map(PathBuf::from) }
            }
            WireSandbox::Bubblewrap(program) => Self::Bubblewrap(program.into()),
        }
    }
}

/// A process that was started or adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) pid: Option<u32>,
    /// Number of commands so far.
    pub(super) commands: u64,
}

/// The serialized form of [`LaunchError`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WireLaunchError {
    NotFound(WireString),
    NoDirectory(WireString),
    Start { program: WireString, fault: WireIoError },
}

/// The serialized form of [`io::Error`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireIoError {
    /// The error number, if it is an error of the operating system.
    number: Option<i32>,
    kind: WireIoErrorKind,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum WireIoErrorKind {
    NotFound,
    PermissionDenied,
    InvalidInput,
    Other,
}

impl From<&io::Error> for WireIoError {
    fn from(error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => WireIoErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => WireIoErrorKind::PermissionDenied,
            io::ErrorKind::InvalidInput => WireIoErrorKind::InvalidInput,
            _ => WireIoErrorKind::Other,
        };
        Self { number: error.raw_os_error(), kind, words: error.to_string() }
    }
}

impl From<WireIoError> for io::Error {
    fn from(fault: WireIoError) -> Self {
        if let Some(number) = fault.number {
            return Self::from_raw_os_error(number);
        }
        let kind = match fault.kind {
            WireIoErrorKind::NotFound => io::ErrorKind::NotFound,
            WireIoErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            WireIoErrorKind::InvalidInput => io::ErrorKind::InvalidInput,
            WireIoErrorKind::Other => io::ErrorKind::Other,
        };
        Self::new(kind, fault.words)
    }
}

impl From<&LaunchError> for WireLaunchError {
    fn from(error: &LaunchError) -> Self {
        match error {
            LaunchError::NotFound(program) => Self::NotFound(program.as_path().into()),
            LaunchError::NoDirectory(folder) => Self::NoDirectory(folder.as_path().into()),
            LaunchError::Start { program, source } => {
                Self::Start { program: program.as_path().into(), fault: source.into() }
            }
            // Only a gateway creates this error.
            LaunchError::HolderLost(program) => Self::Start {
                program: program.as_path().into(),
                fault: (&io::Error::other(error.to_string())).into(),
            },
        }
    }
}

impl From<WireLaunchError> for LaunchError {
    fn from(failure: WireLaunchError) -> Self {
        match failure {
            WireLaunchError::NotFound(program) => Self::NotFound(program.into()),
            WireLaunchError::NoDirectory(folder) => Self::NoDirectory(folder.into()),
            WireLaunchError::Start { program, fault } => {
                Self::Start { program: program.into(), source: fault.into() }
            }
        }
    }
}

/// The serialized form of [`Survivor`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireRun {
    pub(super) run: String,
    pub(super) keepsake: Vec<u8>,
    pub(super) asked: u32,
    /// Number, commands and recorded lines of each process.
    pub(super) processes: Vec<(u32, u64, u64)>,
}

impl From<WireRun> for Survivor {
    fn from(run: WireRun) -> Self {
        let process = |(proc, commands, recorded)| SurvivingProcess { proc, commands, recorded };
        Self {
            run: run.run,
            keepsake: run.keepsake,
            attach_count: run.asked,
            processes: run.processes.into_iter().map(process).collect(),
        }
    }
}
