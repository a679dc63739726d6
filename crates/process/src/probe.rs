//! Runs a program that prints a short answer, such as its version.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;

use super::Custody;
use aetheel_model::agent::descriptor::Framing;
use aetheel_model::agent::{Exit, Pipe};
use aetheel_turn::{Launch, LaunchError, Launcher, ProcessEvent, Reach};

const MAX_ANSWER_BYTES: u64 = 4 << 10;

/// The reason why a program did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It cannot be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It took too long.
    #[error("{} did not answer within {} ms", program.display(), limit.as_millis())]
    Timeout {
        /// The program.
        program: PathBuf,
        /// The time limit.
        limit: Duration,
    },
    /// It exited with an error.
    #[error("{} failed{}: {stderr}", program.display(), code.map(|code| format!(" with code {code}")).unwrap_or_default())]
    Failed {
        /// The program.
        program: PathBuf,
        /// Its exit code, or `None` if a signal ended it.
        code: Option<u32>,
        /// The end of its stderr, at most 64 KiB.
        stderr: String,
    },
}

impl Custody {
    /// Runs a program that prints an answer and exits, such as `claude --version`. Returns its
    /// stdout, or its stderr if stdout is empty: at most 4 KiB, trimmed. The program runs in `/`
    /// with the given environment and reach, and with its own temporary folder (`TMPDIR`). Dropping
    /// the future kills it.
    ///
    /// # Errors
    /// [`ProbeError`]. No process of the program is left in any case.
    pub async fn probe(
        &self,
        program: &Path,
        arguments: &[&str],
        mut environment: Vec<(String, String)>,
        mut reach: Reach,
        limit: Duration,
    ) -> Result<String, ProbeError> {
        let temporary = tempfile::Builder::new()
            .prefix(&self.scratch())
            .permissions(Permissions::from_mode(0o700))
            .tempdir();
        let temporary = temporary
            .map_err(|source| LaunchError::Start { program: program.to_owned(), source })?;
        environment.retain(|(name, _)| name != "TMPDIR");
        environment.push(("TMPDIR".to_owned(), temporary.path().to_string_lossy().into_owned()));
        reach.write.push(temporary.path().to_owned());
        let launch = Launch {
            run: "probe".to_owned(),
            proc: 1,
            program: program.to_owned(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment,
            cwd: PathBuf::from("/"),
            stdin: Vec::new(),
            keep_open: false,
            framing: Framing::Lines,
            line_limit: MAX_ANSWER_BYTES as usize,
            output_limit: 16 * MAX_ANSWER_BYTES,
            reach,
        };
        let asked = async {
            let mut process = self.launch(launch).await?;
            let mut answer = String::new();
            while let Some(event) = process.events.recv().await {
                match event {
                    ProcessEvent::Lines(lines) => {
                        for line in lines.iter().filter(|line| line.pipe == Pipe::Stdout) {
                            answer.push_str(&line.text);
                            answer.push('\n');
                        }
                    }
                    ProcessEvent::OutputLimit => {}
                    ProcessEvent::Exited { how: Exit::Code(0), stderr_tail } => {
                        let answer = if answer.trim().is_empty() { stderr_tail } else { answer };
                        let end = answer.floor_char_boundary(MAX_ANSWER_BYTES as usize);
                        return Ok(answer[..end].trim().to_owned());
                    }
                    ProcessEvent::Exited { how, stderr_tail } => {
                        let code = if let Exit::Code(code) = how { Some(code) } else { None };
                        let stderr = stderr_tail.trim().to_owned();
                        return Err(ProbeError::Failed {
                            program: program.to_owned(),
                            code,
                            stderr,
                        });
                    }
                }
            }
            Err(ProbeError::Failed {
                program: program.to_owned(),
                code: None,
                stderr: String::new(),
            })
        };
        timeout(limit, asked)
            .await
            .unwrap_or_else(|_| Err(ProbeError::Timeout { program: program.to_owned(), limit }))
    }
}
