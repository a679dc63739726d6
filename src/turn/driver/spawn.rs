//! Starting the agent: the guest's wish, checked and completed by the host.

use std::ffi::OsString;
use std::path::PathBuf;

use tokio::time::Instant;

use super::Driver;
use super::files::body;
use crate::agent::{Exit, Failure, FailureKind, Input, Spawn, SpawnFailed, Spawned};
use crate::plain::with_causes;
use crate::turn::recording::What;
use crate::turn::{Launch, LaunchError, Process, plan};

/// Processes a turn may start one after the other.
const SPAWNS: u32 = 8;

impl Driver<'_> {
    pub(super) async fn spawn(&mut self, spawn: Spawn) {
        let proc = spawn.proc;
        match self.launch(spawn).await {
            Ok(process) => {
                self.spawns += 1;
                self.heard = Instant::now();
                self.process = Some((proc, process));
                let agent_version = self.host.agent_version(self.name());
                self.input(Input::Spawned(Spawned { proc, agent_version }));
            }
            Err(failure) => {
                tracing::warn!(turn = self.id, backend = self.name(), reason = failure.message, "agent not started");
                let not_found = failure.kind == FailureKind::NotFound;
                self.input(Input::SpawnFailed(SpawnFailed { proc, message: failure.message.clone(), not_found }));
                self.trouble = Some(failure);
            }
        }
    }

    async fn launch(&mut self, spawn: Spawn) -> Result<Process, Failure> {
        let refuse = |message: String| Failure { kind: FailureKind::Refused, message, retry_after_ms: None };
        if self.process.is_some() {
            return Err(refuse("a turn runs one process at a time".to_owned()));
        }
        if self.spawns >= SPAWNS {
            return Err(refuse(format!("a turn starts at most {SPAWNS} processes")));
        }
        if self.cause.is_some() || self.guard.is_done() {
            return Err(refuse("the turn is ending".to_owned()));
        }
        let descriptor = self.backend.descriptor();
        let checked = plan::check(&spawn, descriptor, self.safety, &self.files.paths, &self.host.variables)
            .map_err(|fault| refuse(format!("the backend's plan was refused: {fault}")))?;
        let stdin = body(&spawn.stdin).map_err(refuse)?;
        let mut environment = self.host.environment(descriptor);
        environment.retain(|(name, _)| !checked.environment.iter().any(|(set, _)| set == name));
        environment.extend(checked.environment);
        let program = self.host.program(&descriptor.name, &checked.program);
        let mut command: Vec<OsString> = self.host.wrapper.iter().map(OsString::from).collect();
        command.push(program.into());
        command.extend(checked.arguments.into_iter().map(OsString::from));
        self.recording.host(What::Launch {
            command: command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
            environment: environment.iter().map(|(name, _)| name.clone()).collect(),
            cwd: self.cwd.to_string_lossy().into_owned(),
        });
        let line_limit = descriptor.line_limit.map_or(self.host.line_limit, |limit| self.host.line_limit.min(limit as usize));
        let program = PathBuf::from(command.remove(0));
        let launch = Launch {
            run: self.id.clone(),
            program,
            arguments: command,
            environment,
            cwd: self.cwd.clone(),
            stdin,
            keep_open: spawn.keep_open,
            line_limit,
            output_limit: self.host.output_limit,
        };
        self.launcher.launch(launch).await.map_err(|error| Failure {
            kind: if matches!(error, LaunchError::NotFound(_)) { FailureKind::NotFound } else { FailureKind::Other },
            message: with_causes(&error),
            retry_after_ms: None,
        })
    }
}

/// What to tell about an agent that exited without ending its turn.
pub(super) fn last_words(stderr: &str, how: Exit) -> String {
    let said: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = said[said.len().saturating_sub(5)..].join("\n");
    let how = match how {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => "unknown exit".to_owned(),
    };
    if tail.is_empty() { format!("the agent ended without a result ({how})") } else { format!("{tail} ({how})") }
}
