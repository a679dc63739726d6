//! Starts a process as the guest requested it, if the host allows it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use super::LinkTask;
use crate::link::LinkReport;
use crate::link::action_error::ActionError;
use crate::link::processes::Endpoint;
use crate::{Launch, LaunchError, plan};
use aetheel_model::agent::descriptor::Credential;
use aetheel_model::agent::{ArgumentValue, Descriptor, Input, Safety, Spawn, SpawnFailed, Spawned};
use aetheel_model::plain::with_causes;
use aetheel_recording::EntryKind;

/// The variable that names the folder for temporary files. Each link's agent has its own folder.
const TEMPORARY: &str = "TMPDIR";

impl LinkTask {
    pub(super) async fn spawn(&mut self, spawn: Spawn) {
        let proc = spawn.proc;
        match self.start(spawn).await {
            Ok(()) => {
                let agent_version = self.deps.agent_version();
                self.input(Input::Spawned(Spawned { proc, agent_version }));
            }
            Err((message, not_found)) => {
                tracing::warn!(reason = message, "agent not started");
                self.input(Input::SpawnFailed(SpawnFailed { proc, message, not_found }));
            }
        }
    }

    /// Starts a process.
    ///
    /// # Errors
    /// Returns the reason, and whether the program was not found.
    async fn start(&mut self, spawn: Spawn) -> Result<(), (String, bool)> {
        let (launch, port) = self.plan(&spawn).map_err(|error| (with_causes(&error), false))?;
        let endpoint = port.map(|port| Endpoint { port, auth: spawn.basic_auth });
        self.send_keepsake(endpoint.as_ref().map(|endpoint| (spawn.proc, endpoint)));
        let launched = self.deps.launcher.launch(launch).await;
        if let Err(LaunchError::HolderLost(_)) = launched {
            // The agent never received the prompt, so the turn itself did not fail.
            self.replies.report_all(|| LinkReport::Orphaned);
        }
        let process = launched
            .map_err(|error| (with_causes(&error), matches!(error, LaunchError::NotFound(_))))?;
        self.io.processes.add(spawn.proc, process, endpoint);
        Ok(())
    }

    /// Checks a guest's request and completes it. Also returns the port on which the process must
    /// listen.
    ///
    /// # Errors
    /// Returns an error if the host does not allow the process, or cannot prepare its start.
    fn plan(&mut self, spawn: &Spawn) -> Result<(Launch, Option<u16>), ActionError> {
        let port = match spawn.listens {
            true => Some(free_port().map_err(ActionError::NoPort)?),
            false => None,
        };
        let mut secrets = HashMap::new();
        let named = spawn.environment.iter().filter_map(|variable| match &variable.value {
            ArgumentValue::Secret(name) => Some(name),
            _ => None,
        });
        for name in named.chain(spawn.basic_auth.iter().map(|auth| &auth.secret)) {
            secrets.insert(name.clone(), self.io.body_sources.secret(name)?.to_owned());
        }
        let host = &self.deps.host;
        let descriptor = self.deps.backend.descriptor();
        let session = spawn.session.and_then(|session| self.machine.turns.sessions.get(session));
        // A process without a session serves all sessions, so it gets the lowest safety level.
        let safety = session.map_or(Safety::Default, |session| session.safety);
        let cwd = session.map_or_else(|| self.deps.cwd.clone(), |session| (&session.cwd).into());
        let known = plan::ValueSources {
            files: &self.io.files.paths,
            secrets: &secrets,
            port,
            tool_server: self.io.body_sources.tool_server(),
            inherited: &descriptor.environment.seen_by_agent(&host.variables),
        };
        let checked = plan::check(spawn, descriptor, safety, known)?;
        let stdin = self.io.body_sources.body(&spawn.stdin)?;
        let mut environment = host.environment(descriptor);
        // The reach depends on the operator's variables, not on those of the guest.
        let mut reach = host.reach(descriptor, &environment);
        let (files, temporary) = self.io.files.folders()?;
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
        self.recording.host(EntryKind::Launch {
            command: command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
            // Recordings are shared, so they must not list the other variables of this machine.
            environment: environment
                .iter()
                .map(|(name, _)| name.clone())
                .filter(|name| declares(descriptor, name))
                .collect(),
            cwd: cwd.to_string_lossy().into_owned(),
        });
        let declared = descriptor.programs.iter().find(|known| known.name == spawn.program);
        let launch = Launch {
            run: self.deps.id.clone(),
            proc: spawn.proc,
            program: PathBuf::from(command.remove(0)),
            arguments: command,
            environment,
            cwd,
            stdin,
            keep_open: spawn.keep_open,
            framing: declared.map(|known| known.framing).unwrap_or_default(),
            line_limit: self.line_limit(),
            // The link limits the output of a long-lived agent for each turn.
            output_limit: if self.machine.settings.is_one_shot {
                host.resources.output
            } else {
                u64::MAX
            },
            reach,
        };
        Ok((launch, port))
    }
}

impl LinkTask {
    /// Returns the maximum length of a line and of a response body, in bytes.
    pub(super) fn line_limit(&self) -> usize {
        let host = self.deps.host.resources.line;
        self.deps.backend.descriptor().line_limit.map_or(host, |limit| host.min(limit as usize))
    }
}

/// Returns a free port. Another program may take it before the agent listens, and the agent then
/// reports that.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Returns whether the descriptor names a variable.
fn declares(descriptor: &Descriptor, name: &str) -> bool {
    let credential = |credential: &Credential| matches!(credential, Credential::Variable(known) if known == name);
    let named = |names: &[String]| names.iter().any(|known| known == name);
    named(&descriptor.environment.set)
        || named(&descriptor.environment.pass)
        || descriptor.credentials.iter().any(credential)
}
