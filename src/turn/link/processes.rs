//! The processes of a link: starting them as planned, hearing them, commanding them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use super::Report;
use super::task::{Happening, Task};
use crate::agent::descriptor::Credential;
use crate::agent::{
    BasicAuth, Descriptor, Exit, Exited, Failure, FailureKind, Input, Line, Pipe, Safety, Spawn,
    SpawnFailed, Spawned, TimedInput, Value,
};
use crate::figures;
use crate::plain::with_causes;
use crate::turn::recording::What;
use crate::turn::{
    Launch, LaunchError, OutputLine, Process, ProcessCommand, ProcessEvent, plan, reason,
};

/// Processes a link may start between two turns' beginnings.
const SPAWNS: u32 = 8;
/// Processes a link may have at a time: one that leaves and one that comes, and some room.
const AT_ONCE: usize = 4;

/// Where programs put what they need for a while: each link's agent has a folder of its own.
const TEMPORARY: &str = "TMPDIR";

/// A process of a link.
pub(super) struct Running {
    process: Process,
    /// It has exited. The guest hears that in a call of its own, so that what it makes of the end
    /// is told apart from what it made of the output.
    exit: Option<ProcessEvent>,
    /// Where it listens, and who the host says it is.
    pub(super) port: Option<u16>,
    pub(super) auth: Option<BasicAuth>,
}

impl Task {
    pub(super) async fn spawn(&mut self, spawn: Spawn) {
        let proc = spawn.proc;
        match self.launch(spawn).await {
            Ok(running) => {
                self.spawns += 1;
                self.processes.insert(proc, running);
                self.tell_turns(|| Report::Heard);
                let agent_version = self.parts.host.agent_version(self.name());
                self.input(Input::Spawned(Spawned { proc, agent_version }));
            }
            Err(failure) => {
                tracing::warn!(reason = failure.message, "agent not started");
                let not_found = failure.kind == FailureKind::NotFound;
                self.input(Input::SpawnFailed(SpawnFailed {
                    proc,
                    message: failure.message.clone(),
                    not_found,
                }));
                self.tell_turns(|| Report::Trouble(failure.clone()));
            }
        }
    }

    async fn launch(&mut self, spawn: Spawn) -> Result<Running, Failure> {
        let refuse =
            |message: String| Failure { kind: FailureKind::Other, message, retry_after_ms: None };
        if self.processes.contains_key(&spawn.proc) {
            return Err(refuse(format!("process {} is running already", spawn.proc)));
        }
        if self.spawns >= SPAWNS || self.processes.len() >= AT_ONCE {
            return Err(refuse(format!(
                "a turn starts at most {SPAWNS} processes, and a link has {AT_ONCE} at a time"
            )));
        }
        if self.is_ending() {
            return Err(refuse("the link is ending".to_owned()));
        }
        let port = match spawn.listens {
            true => Some(
                free_port()
                    .map_err(|error| refuse(format!("no loopback port is free: {error}")))?,
            ),
            false => None,
        };
        let mut secrets = HashMap::new();
        let named = spawn.environment.iter().filter_map(|variable| match &variable.value {
            Value::Secret(name) => Some(name),
            _ => None,
        });
        for name in named.chain(spawn.basic_auth.iter().map(|auth| &auth.secret)) {
            secrets.insert(name.clone(), self.stock.secret(name).map_err(refuse)?.to_owned());
        }
        let host = &self.parts.host;
        let descriptor = self.parts.backend.descriptor();
        let seat = spawn.session.and_then(|session| self.sessions.get(&session));
        // Without a session of its own a process serves all of them: the least they may have.
        let safety = seat.map_or(Safety::Default, |seat| seat.safety);
        let cwd = seat.map_or_else(|| self.parts.cwd.clone(), |seat| PathBuf::from(&seat.cwd));
        let known = plan::Known {
            files: &self.files.paths,
            secrets: &secrets,
            port,
            inherited: &host.variables,
        };
        let checked = plan::check(&spawn, descriptor, safety, known)
            .map_err(|fault| refuse(format!("the backend's plan was refused: {fault}")))?;
        let stdin = self.stock.body(&spawn.stdin).map_err(refuse)?;
        let mut environment = host.environment(descriptor);
        // Of what the operator set, not of what the guest sets.
        let mut reach = host.reach(descriptor, &environment);
        let (files, temporary) = self.files.folders().map_err(refuse)?;
        environment.retain(|(name, _)| {
            name != TEMPORARY && !checked.environment.iter().any(|(set, _)| set == name)
        });
        environment.extend(checked.environment);
        environment.push((TEMPORARY.to_owned(), temporary.to_string_lossy().into_owned()));
        let program = host.program(&descriptor.name, &checked.program);
        reach.read.push(files);
        reach.write.extend([temporary, cwd.clone()]);
        reach.programs.push(program.clone());
        let mut command: Vec<OsString> = host.wrapper.iter().map(OsString::from).collect();
        command.push(program.into());
        command.extend(checked.arguments.into_iter().map(OsString::from));
        self.recording.host(What::Launch {
            command: command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
            // Recordings are shared: which others this machine has is nobody's business.
            environment: environment
                .iter()
                .map(|(name, _)| name.clone())
                .filter(|name| declares(descriptor, name))
                .collect(),
            cwd: cwd.to_string_lossy().into_owned(),
        });
        let launch = Launch {
            run: self.parts.id.clone(),
            program: PathBuf::from(command.remove(0)),
            arguments: command,
            environment,
            cwd,
            stdin,
            keep_open: spawn.keep_open,
            framing: descriptor
                .programs
                .iter()
                .find(|known| known.name == spawn.program)
                .map(|known| known.framing)
                .unwrap_or_default(),
            line_limit: self.line_limit(),
            // Of a long-lived agent the link counts turn by turn.
            output_limit: if self.one_shot { host.output_limit } else { u64::MAX },
            reach,
        };
        let started = self.parts.launcher.launch(launch).await;
        started
            .map(|process| Running { process, exit: None, port, auth: spawn.basic_auth })
            .map_err(|error| Failure {
                kind: if matches!(error, LaunchError::NotFound(_)) {
                    FailureKind::NotFound
                } else {
                    FailureKind::Other
                },
                message: with_causes(&error),
                retry_after_ms: None,
            })
    }

    /// Longest line, and longest body of an answer, bytes.
    pub(super) fn line_limit(&self) -> usize {
        let host = self.parts.host.line_limit;
        self.parts.backend.descriptor().line_limit.map_or(host, |limit| host.min(limit as usize))
    }

    /// Takes in what a process did, and what else it has done by now.
    pub(super) fn process_event(&mut self, proc: u32, mut event: ProcessEvent) {
        let mut heard = 0;
        loop {
            match event {
                ProcessEvent::Lines(lines) => {
                    let at_ms = self.recording.now();
                    figures::lines_truncated(
                        self.name(),
                        lines.iter().filter(|line| line.truncated).count() as u64,
                    );
                    let said = |line: &OutputLine| {
                        line.pipe == Pipe::Stdout && !line.text.trim().is_empty()
                    };
                    if self.one_shot && lines.iter().any(said) {
                        self.tell_turns(|| Report::Said);
                    }
                    heard += lines.iter().map(|line| line.text.len() as u64 + 1).sum::<u64>();
                    self.inputs.extend(lines.into_iter().map(|line| TimedInput {
                        at_ms,
                        input: Input::Line(Line {
                            proc,
                            pipe: line.pipe,
                            text: line.text,
                            truncated: line.truncated,
                        }),
                    }));
                }
                ProcessEvent::OutputLimit => self.tell_turns(|| Report::TooMuch),
                exit @ ProcessEvent::Exited { .. } if !self.inputs.is_empty() => {
                    if let Some(running) = self.processes.get_mut(&proc) {
                        running.exit = Some(exit);
                    }
                    break;
                }
                ProcessEvent::Exited { how, stderr_tail } => {
                    return self.exited(proc, how, stderr_tail);
                }
            }
            // What is there already goes to the guest in the same call.
            if self.inputs.len() >= super::task::BATCH {
                break;
            }
            match self.processes.get_mut(&proc).map(|running| running.process.events.try_recv()) {
                Some(Ok(more)) => event = more,
                _ => break,
            }
        }
        self.heard(heard);
    }

    pub(super) fn exited(&mut self, proc: u32, how: Exit, stderr_tail: String) {
        self.processes.remove(&proc);
        if how != Exit::Code(0) && self.turns.is_empty() {
            tracing::info!(?how, "agent exited badly outside a turn");
        }
        let failure = Failure {
            kind: FailureKind::Crashed,
            message: last_words(&stderr_tail, how),
            retry_after_ms: None,
        };
        self.tell_turns(|| Report::Trouble(failure.clone()));
        self.tell_turns(|| Report::Stderr(stderr_tail.clone()));
        if how == Exit::Code(0) {
            self.tell_turns(|| Report::Left);
        }
        self.input(Input::Exited(Exited { proc, how, stderr_tail }));
    }

    pub(super) fn command(&mut self, proc: u32, command: ProcessCommand) {
        match self.processes.get(&proc) {
            // A dead process takes no commands; its exit is on the way.
            Some(running) => drop(running.process.commands.send(command)),
            None => self.dropped("process command", "the process is not running"),
        }
    }

    /// Asks all processes for something; false when none could hear it.
    pub(super) fn command_all(&self, command: &ProcessCommand) -> bool {
        self.processes
            .values()
            .filter(|running| running.process.commands.send(command.clone()).is_ok())
            .count()
            > 0
    }
}

/// The next event of any process; never, when there is none.
pub(super) async fn next_event(
    processes: &mut std::collections::BTreeMap<u32, Running>,
) -> Happening {
    if processes.is_empty() {
        return std::future::pending().await;
    }
    std::future::poll_fn(|context| {
        for (proc, running) in processes.iter_mut() {
            if let Some(exit) = running.exit.take() {
                return std::task::Poll::Ready(Happening::Process(*proc, Some(exit)));
            }
            if let std::task::Poll::Ready(event) = running.process.events.poll_recv(context) {
                return std::task::Poll::Ready(Happening::Process(*proc, event));
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// A port nobody listens on. Between this and the agent's own start somebody else may take it; the
/// agent then says so.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// What to tell about an agent that exited without ending its turn.
fn last_words(stderr: &str, how: Exit) -> String {
    let tail = reason::reason(stderr);
    let how = match how {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => "unknown exit".to_owned(),
    };
    if tail.is_empty() {
        format!("the agent ended without a result ({how})")
    } else {
        format!("{tail} ({how})")
    }
}

/// Whether a variable is one that the descriptor names.
fn declares(descriptor: &Descriptor, name: &str) -> bool {
    let credential = |credential: &Credential| matches!(credential, Credential::Variable(known) if known == name);
    let named = |names: &[String]| names.iter().any(|known| known == name);
    named(&descriptor.environment.set)
        || named(&descriptor.environment.pass)
        || descriptor.credentials.iter().any(credential)
}
