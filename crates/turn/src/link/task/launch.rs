//! Starts a process as the guest requested it, if the host allows it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use super::io::LinkIo;
use crate::link::action_error::ActionError;
use crate::link::machine::LinkMachine;
use crate::link::processes::Endpoint;
use crate::link::{LinkDeps, LinkReport};
use crate::{Launch, LaunchError, plan};
use aetheel_model::agent::descriptor::Credential;
use aetheel_model::agent::{ArgumentValue, Descriptor, Input, Safety, Spawn, SpawnFailed, Spawned};
use aetheel_model::plain::with_causes;
use aetheel_recording::{EntryKind, Recording};

/// The variable that names the folder for temporary files. Each link's agent has its own folder.
const TEMPORARY: &str = "TMPDIR";

impl LinkIo {
    /// Starts a process. Returns the input about that.
    pub(super) async fn spawn(
        &mut self,
        spawn: Spawn,
        deps: &LinkDeps,
        machine: &mut LinkMachine,
        recording: &mut Recording,
    ) -> Input {
        let proc = spawn.proc;
        let (message, not_found) = match self.plan(&spawn, deps, machine, recording) {
            Ok((launch, port)) => {
                let endpoint = port.map(|port| Endpoint { port, auth: spawn.basic_auth });
                let starts = endpoint.as_ref().map(|endpoint| (proc, endpoint));
                self.store_keepsake(deps, recording, starts);
                match deps.launcher.launch(launch).await {
                    Ok(process) => {
                        self.processes.add(proc, process, endpoint);
                        let agent_version = deps.agent_version();
                        return Input::Spawned(Spawned { proc, agent_version });
                    }
                    Err(error) => {
                        if let LaunchError::HolderLost(_) = error {
                            // The agent never received the prompt, so the turn itself did not fail.
                            machine.turns.report_all(|| LinkReport::Orphaned);
                        }
                        (with_causes(&error), matches!(error, LaunchError::NotFound(_)))
                    }
                }
            }
            Err(error) => (with_causes(&error), false),
        };
        tracing::warn!(reason = message, "agent not started");
        Input::SpawnFailed(SpawnFailed { proc, message, not_found })
    }

    /// Checks a guest's request and completes it. Also returns the port on which the process must
    /// listen.
    ///
    /// # Errors
    /// Returns an error if the host does not allow the process, or cannot prepare its start.
    fn plan(
        &mut self,
        spawn: &Spawn,
        deps: &LinkDeps,
        machine: &LinkMachine,
        recording: &mut Recording,
    ) -> Result<(Launch, Option<u16>), ActionError> {
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
            secrets.insert(name.clone(), self.body_sources.secret(name)?.to_owned());
        }
        let host = &deps.host;
        let descriptor = deps.backend.descriptor();
        let session = spawn.session.and_then(|session| machine.turns.sessions.get(session));
        // A process without a session serves all sessions, so it gets the lowest safety level.
        let safety = session.map_or(Safety::Default, |session| session.safety);
        let cwd = session.map_or_else(|| deps.cwd.clone(), |session| (&session.cwd).into());
        let known = plan::ValueSources {
            files: &self.files.paths,
            secrets: &secrets,
            port,
            tool_server: self.body_sources.tool_server(),
            inherited: &descriptor.environment.seen_by_agent(&host.variables),
        };
        let checked = plan::check(spawn, descriptor, safety, known)?;
        let stdin = self.body_sources.body(&spawn.stdin)?;
        let mut environment = host.environment(descriptor);
        // The reach depends on the operator's variables, not on those of the guest.
        let mut reach = host.reach(descriptor, &environment);
        let (files, temporary) = self.files.folders()?;
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
        // Recordings are shared, so they must not list the other variables of this machine.
        let names = environment.iter().map(|(name, _)| name);
        recording.host(EntryKind::Launch {
            command: command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
            environment: names.filter(|name| declares(descriptor, name)).cloned().collect(),
            cwd: cwd.to_string_lossy().into_owned(),
        });
        let declared = descriptor.programs.iter().find(|known| known.name == spawn.program);
        let launch = Launch {
            run: deps.id.clone(),
            proc: spawn.proc,
            program: PathBuf::from(command.remove(0)),
            arguments: command,
            environment,
            cwd,
            stdin,
            keep_open: spawn.keep_open,
            framing: declared.map(|known| known.framing).unwrap_or_default(),
            line_limit: deps.line_limit(),
            // The link limits the output of a long-lived agent for each turn.
            output_limit: if machine.settings.is_one_shot {
                host.resources.output
            } else {
                u64::MAX
            },
            reach,
        };
        Ok((launch, port))
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
