//! Lets the new program check this installation before it takes over.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::cli::Common;
use crate::commands::check::STATE;
use crate::terminal::line;
use aetheel_process::{OperatorCommand, OperatorCommandError};

const CHECK_TIMEOUT: Duration = Duration::from_secs(120);

/// The reason why the new program cannot take over.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramCheckError {
    #[error("`{program} {command}` could not be run: {why}; run it to see more", program = program.display())]
    NotRun { program: PathBuf, command: &'static str, why: OperatorCommandError },
    #[error("`{program} {command}` reports problems; see the reasons above (exit code {code})", program = program.display())]
    Problems { program: PathBuf, command: &'static str, code: i32 },
}

/// The new program, and the settings of this command.
pub(super) struct NewProgram<'a> {
    pub(super) program: &'a Path,
    pub(super) common: &'a Common,
}

/// The output of `aetheel check --json`, as far as it is needed here.
#[derive(Deserialize)]
struct CheckOutput {
    starts: bool,
    lines: Vec<CheckLine>,
}

#[derive(Deserialize)]
struct CheckLine {
    level: String,
    about: String,
    says: String,
}

impl CheckLine {
    fn is_fault(&self) -> bool {
        self.level == "fault"
    }
}

impl NewProgram<'_> {
    /// Checks settings and state. `is_serving` says whether a gateway runs here: it works without
    /// the parts that a start leaves out, so they only cause warnings.
    pub(super) async fn check(&self, is_serving: bool) -> Result<(), ProgramCheckError> {
        let mut command = self.command(["check", "--json"]);
        if let Some(number) = self.common.secrets_fd {
            command.arguments.extend(["--secrets-fd".into(), number.to_string().into()]);
            command.inherits_stdin = number == 0;
        }
        let (program, name) = (self.program.to_owned(), "check");
        let (code, output) = match command.output().await {
            Ok(done) => done,
            Err(why) => return Err(ProgramCheckError::NotRun { program, command: name, why }),
        };
        let problems = ProgramCheckError::Problems { program, command: name, code };
        let Ok(checked) = serde_json::from_str::<CheckOutput>(&output) else {
            return Err(problems);
        };
        let harms = |found: &CheckLine| {
            found.is_fault() && !(checked.starts && is_serving && found.about != STATE)
        };
        for found in &checked.lines {
            match (harms(found), found.level.as_str()) {
                (true, _) => line(&format!("fault: {}", found.says)),
                (false, "fault") => line(&format!(
                    "warning: {} (left out; the running gateway works without it)",
                    found.says
                )),
                (false, "warning") => line(&format!("warning: {}", found.says)),
                _ => {}
            }
        }
        if !checked.starts || checked.lines.iter().any(harms) { Err(problems) } else { Ok(()) }
    }

    /// Compares the recordings of this installation.
    pub(super) async fn compare(&self) -> Result<(), ProgramCheckError> {
        // Flushed, so that the output of the other program comes after the earlier output.
        let _ = std::io::stdout().flush();
        let (program, command) = (self.program.to_owned(), "backend compare");
        match self.command(["backend", "compare"]).run().await {
            Ok(0) => Ok(()),
            Ok(code) => {
                line("hint: `aetheel upgrade --ignore-recordings` skips the recordings");
                Err(ProgramCheckError::Problems { program, command, code })
            }
            Err(why) => Err(ProgramCheckError::NotRun { program, command, why }),
        }
    }

    fn command<const N: usize>(&self, arguments: [&str; N]) -> OperatorCommand {
        let mut arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        if let Some(file) = &self.common.env_file {
            arguments.extend(["--env-file".into(), file.into()]);
        }
        OperatorCommand {
            program: self.program.to_owned(),
            arguments,
            inherits_stdin: false,
            limit: CHECK_TIMEOUT,
        }
    }
}
