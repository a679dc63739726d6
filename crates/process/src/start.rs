//! Prepares and starts a run with its three pipes.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open, waitpid,
};

use super::cgroup::Cgroup;
use super::clone::{self, ClonePlan, CloneStage};
use super::descent::{RunProcesses, StartingLeader};
use super::gateway_id::MARK;
use super::program::{ProgramError, find_program};
use super::run_handle::{RunHandle, RunningGroup};
use super::sandbox::{Confinement, Filter, Sandbox, SandboxError};
use aetheel_turn::{Launch, LaunchError, WorkingDirectory, WorkingDirectoryError};

/// Size of the stdout pipe in bytes: the largest that an unprivileged process may set
/// (`/proc/sys/fs/pipe-max-size`).
const STDOUT_PIPE_BYTES: libc::c_int = 1 << 20;

/// Our ends of the pipes.
pub(super) struct Pipes {
    pub(super) stdin: PipeWriter,
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
}

/// The reason why a run did not start. The caller may try again without a cgroup after
/// [`SpawnFailure::Clone`].
pub(super) enum SpawnFailure {
    Clone(io::Error),
    /// Any other error.
    Final(LaunchError),
}

/// A launch request in the form that the system calls need.
pub(super) struct PreparedLaunch<'a> {
    launch: &'a Launch,
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    cwd: WorkingDirectory,
    rules: Option<OwnedFd>,
    filter: Option<Filter>,
    passed_fd: Option<OwnedFd>,
    mark: String,
    tag: u64,
}

/// Checks a launch request: finds the program and sets up its sandbox.
///
/// # Errors
/// As [`aetheel_turn::Launcher::launch`].
pub(super) fn prepare<'a>(
    launch: &'a Launch,
    sandbox: &Sandbox,
    mark: String,
    tag: u64,
) -> Result<PreparedLaunch<'a>, LaunchError> {
    let failed = |source: io::Error| LaunchError::Start { program: launch.program.clone(), source };
    let path = match launch.environment.iter().find(|(name, _)| name == "PATH") {
        Some((_, path)) => OsString::from(path),
        None => std::env::var_os("PATH").unwrap_or_default(),
    };
    let program = find_program(&launch.program, &path).map_err(|error| match error {
        ProgramError::NotFound(program) => LaunchError::NotFound(program),
        error @ ProgramError::NotExecutable(_) => {
            failed(io::Error::new(io::ErrorKind::PermissionDenied, error))
        }
    })?;
    let cwd = WorkingDirectory::open(&launch.cwd).map_err(|error| match error {
        WorkingDirectoryError::Missing(path) => LaunchError::NoDirectory(path),
        error @ WorkingDirectoryError::Link(_) => {
            failed(io::Error::new(io::ErrorKind::PermissionDenied, error))
        }
        error @ WorkingDirectoryError::Unreachable { .. } => failed(io::Error::other(error)),
    })?;
    let refused = |error: SandboxError| {
        failed(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("it cannot be confined: {error}"),
        ))
    };
    let cage = sandbox
        .confine(&launch.reach, &program, &launch.arguments, &cwd, &path)
        .map_err(refused)?;
    let string = |bytes: &[u8]| CString::new(bytes).map_err(|error| failed(error.into()));
    let (mut rules, mut filter, mut handed) = (None, None, None);
    let (program, name, given) = match cage {
        Confinement::None => (program, launch.program.clone(), launch.arguments.clone()),
        Confinement::Rules(ruleset, calls) => {
            (rules, filter) = (Some(ruleset), Some(calls));
            (program, launch.program.clone(), launch.arguments.clone())
        }
        Confinement::Program(wrapper, arguments, calls) => {
            handed = Some(calls);
            (wrapper.clone(), wrapper, arguments)
        }
    };
    let arguments = std::iter::once(name.as_os_str()).chain(given.iter().map(OsString::as_os_str));
    let variable = |name: &str, value: &str| string(format!("{name}={value}").as_bytes());
    let given = launch
        .environment
        .iter()
        .filter(|(name, _)| name != MARK)
        .map(|(name, value)| variable(name, value));
    Ok(PreparedLaunch {
        launch,
        program: string(program.as_os_str().as_bytes())?,
        arguments: arguments.map(OsStr::as_bytes).map(string).collect::<Result<_, _>>()?,
        environment: given.chain([variable(MARK, &mark)]).collect::<Result<_, _>>()?,
        cwd,
        rules,
        filter,
        passed_fd: handed,
        mark,
        tag,
    })
}

impl PreparedLaunch<'_> {
    /// Starts the run. Blocks until the program is executed.
    ///
    /// # Errors
    /// [`SpawnFailure`]. No process and no cgroup is left.
    pub(super) fn start(&self, cgroup: Option<Cgroup>) -> Result<(RunHandle, Pipes), SpawnFailure> {
        let failed = |source: io::Error| {
            SpawnFailure::Final(LaunchError::Start { program: self.launch.program.clone(), source })
        };
        let (child_stdin, stdin) = pipe().map_err(failed)?;
        let (stdout, child_stdout) = pipe().map_err(failed)?;
        let (stderr, child_stderr) = pipe().map_err(failed)?;
        enlarge_pipe(&stdout);
        let plan = ClonePlan {
            program: &self.program,
            arguments: &self.arguments,
            environment: &self.environment,
            cwd: self.cwd.handle(),
            stdio: [child_stdin.as_fd(), child_stdout.as_fd(), child_stderr.as_fd()],
            rules: self.rules.as_ref().map(AsFd::as_fd),
            filter: self.filter,
            passed_fd: self.passed_fd.as_ref().map(AsFd::as_fd),
            tag: self.tag,
            cgroup: cgroup.as_ref().map(Cgroup::handle),
        };
        let starting = StartingLeader::announce(self.tag);
        let leader = match clone::start(&plan) {
            Ok(leader) => leader,
            Err((stage, error)) => {
                if let Some(cgroup) = &cgroup {
                    cgroup.remove();
                }
                return Err(match stage {
                    // There are too many processes, or too little memory. The start would also fail
                    // without the cgroup.
                    CloneStage::Clone
                        if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM)) =>
                    {
                        failed(error)
                    }
                    CloneStage::Clone => SpawnFailure::Clone(error),
                    CloneStage::Directory => match error.kind() {
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                            SpawnFailure::Final(LaunchError::NoDirectory(self.launch.cwd.clone()))
                        }
                        kind => failed(io::Error::new(
                            kind,
                            format!("working directory {}: {error}", self.launch.cwd.display()),
                        )),
                    },
                    // The file was found before, so the interpreter in its first line is missing.
                    CloneStage::Program if error.kind() == io::ErrorKind::NotFound => {
                        failed(io::Error::new(
                            error.kind(),
                            "the program or its interpreter (first line of a script) does not exist",
                        ))
                    }
                    CloneStage::Rules => failed(io::Error::new(
                        error.kind(),
                        format!("it cannot be confined: the kernel refuses: {error}"),
                    )),
                    CloneStage::Program | CloneStage::Stdio => failed(error),
                });
            }
        };
        let pidfd = match pidfd_open(leader, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                kill_unguarded(leader, cgroup.as_ref());
                return Err(failed(error.into()));
            }
        };
        starting.started(leader.as_raw_nonzero().get(), &self.mark);
        let processes = RunProcesses {
            leader: leader.as_raw_nonzero().get(),
            mark: self.mark.clone(),
            tag: self.tag,
        };
        let run = RunningGroup { leader, processes, pidfd, cgroup, name: self.launch.run.clone() };
        Ok((RunHandle::new(run), Pipes { stdin, stdout, stderr }))
    }
}

/// Enlarges a pipe, so that it has space for the output at the end of a program. Programs on Node
/// and Bun write asynchronously, and some exit before the output is written: Claude Code 2.1.197
/// loses the part that the pipe has no space for, which can be two thirds of a long answer. If the
/// system refuses, the pipe keeps its size.
fn enlarge_pipe(pipe: &PipeReader) {
    // SAFETY: the arguments and the result are numbers. The descriptor is open, because it is
    // borrowed.
    #[expect(unsafe_code, reason = "rustix has it behind a feature that nothing else here needs")]
    let made = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, STDOUT_PIPE_BYTES) };
    if made < 0 {
        tracing::debug!(error = %io::Error::last_os_error(), "cannot enlarge the stdout pipe");
    }
}

/// Kills a leader for which no handle was created. It had no time to start other processes.
fn kill_unguarded(leader: Pid, cgroup: Option<&Cgroup>) {
    let _ = kill_process_group(leader, Signal::KILL);
    let _ = waitpid(Some(leader), WaitOptions::empty());
    if let Some(cgroup) = cgroup {
        let _ = cgroup.kill();
        super::wait_until(super::KILL_LIMIT, || cgroup.remove());
    }
}
