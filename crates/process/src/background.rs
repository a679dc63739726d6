//! Programs that continue after the command that started them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A program to start in the background, with the environment of this process.
#[derive(Debug)]
pub struct BackgroundProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its working directory, or `None` for that of this process.
    pub folder: Option<PathBuf>,
}

/// A program that was started in the background. Dropping this leaves it running.
#[derive(Debug)]
pub struct StartedProgram(Child);

impl BackgroundProgram {
    /// Starts the program in a process group of its own, so that a signal of the terminal does not
    /// reach it. Its stderr goes to `log`, and it has no stdin and stdout.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(self, log: File) -> io::Result<StartedProgram> {
        let mut command = Command::new(self.program);
        command.args(self.arguments).process_group(0);
        if let Some(folder) = self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().map(StartedProgram)
    }
}

impl StartedProgram {
    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns how the program ended, or `None` if it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}
