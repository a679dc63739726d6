//! Runs a program of this project on behalf of the operator, for example a new version of it.
//!
//! The program is not an agent: it has this process's environment, directory and terminal, and no
//! sandbox.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// A program to run.
#[derive(Clone, Debug)]
pub struct OperatorCommand {
    /// The file of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Whether it inherits stdin.
    pub inherits_stdin: bool,
    /// How long it may take. It is killed after that.
    pub limit: Duration,
}

/// The reason why a program did not exit by itself.
#[derive(Debug, thiserror::Error)]
pub enum OperatorCommandError {
    /// It cannot be started.
    #[error("it cannot be started: {0}")]
    Start(#[source] io::Error),
    /// It took too long, and was killed.
    #[error("it did not end within {} s", .0.as_secs())]
    Timeout(Duration),
    /// A signal ended it.
    #[error("it crashed")]
    Crashed,
}

impl OperatorCommand {
    /// Runs the program with our stdout and stderr, and returns its exit code.
    ///
    /// # Errors
    /// [`OperatorCommandError`]. The program no longer runs in any case.
    pub async fn run(&self) -> Result<i32, OperatorCommandError> {
        let mut child = self.command().spawn().map_err(OperatorCommandError::Start)?;
        let ended = timeout(self.limit, child.wait()).await;
        let status = ended.map_err(|_| OperatorCommandError::Timeout(self.limit))?;
        status.map_err(OperatorCommandError::Start)?.code().ok_or(OperatorCommandError::Crashed)
    }

    /// Runs the program. Returns its exit code and its stdout without the surrounding whitespace.
    ///
    /// # Errors
    /// [`OperatorCommandError`]. The program no longer runs in any case.
    pub async fn output(&self) -> Result<(i32, String), OperatorCommandError> {
        let output = self.command().stdout(Stdio::piped()).stderr(Stdio::null()).output();
        let ended = timeout(self.limit, output).await;
        let output = ended.map_err(|_| OperatorCommandError::Timeout(self.limit))?;
        let output = output.map_err(OperatorCommandError::Start)?;
        let code = output.status.code().ok_or(OperatorCommandError::Crashed)?;
        Ok((code, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let stdin = if self.inherits_stdin { Stdio::inherit() } else { Stdio::null() };
        command.args(&self.arguments).stdin(stdin).kill_on_drop(true);
        command
    }
}
