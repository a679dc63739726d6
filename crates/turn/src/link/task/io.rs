//! The connections of a link to the world: its processes, files and requests.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::ProcessCommand;
use crate::link::LinkDeps;
use crate::link::action_error::ActionError;
use crate::link::files::{BodySources, LinkFiles};
use crate::link::net::Net;
use crate::link::processes::LinkProcesses;
use crate::link::reads::FileReads;
use crate::tool_endpoints::EndpointRequest;
use aetheel_model::agent::{Action, Input, ProcKey, TimedInput};
use aetheel_recording::Recording;

/// Maximum grace period that a guest may request, in milliseconds.
const GRACE_MS_LIMIT: u32 = 10_000;

pub(super) struct LinkIo {
    /// The inputs for the next call into the guest.
    pub(super) inputs: Vec<TimedInput>,
    pub(super) processes: LinkProcesses,
    pub(super) net: Net,
    pub(super) files: LinkFiles,
    pub(super) body_sources: BodySources,
    pub(super) reads: FileReads,
    /// Requests that arrive at the MCP server.
    pub(super) endpoint: mpsc::UnboundedReceiver<EndpointRequest>,
    /// The number of written lines of the recording, if the link outlives the gateway.
    pub(super) progress: Option<watch::Receiver<u64>>,
}

impl LinkIo {
    pub(super) fn new(deps: &LinkDeps, recording: &Recording) -> Self {
        let held = deps.launcher.holds();
        let (requests, endpoint) = mpsc::unbounded_channel();
        deps.tool_endpoints.add(&deps.tool_secret, requests);
        Self {
            inputs: Vec::new(),
            processes: LinkProcesses::default(),
            net: Net::new(),
            files: LinkFiles::new(&deps.launcher.scratch_prefix(), held),
            body_sources: BodySources::new(deps.tool_endpoints.address_of(&deps.tool_secret)),
            reads: FileReads::default(),
            endpoint,
            progress: recording.progress().filter(|_| held),
        }
    }

    /// Adds an input that arrived at this time.
    pub(super) fn input(&mut self, at_ms: f64, input: Input) {
        self.inputs.push(TimedInput { at_ms, input });
    }

    /// Performs an action on processes, files or the network, except the start of a process.
    /// Returns an input at once if a request or a stream fails. `limit` is the maximum size of a
    /// response body, in bytes.
    ///
    /// # Errors
    /// Returns a description of an action that has no effect, and the reason.
    pub(super) fn perform(
        &mut self,
        action: &Action,
        limit: usize,
    ) -> Result<Option<Input>, (&'static str, ActionError)> {
        match action {
            Action::PutFile(file) => {
                let put = self.files.put(file, &mut self.body_sources);
                put.map_err(|error| ("put-file", error))?;
            }
            Action::Http(request) => {
                let listener = self.processes.listener(request.proc);
                return Ok(self.net.request(request, listener, &mut self.body_sources, limit));
            }
            Action::OpenStream(open) => {
                let listener = self.processes.listener(open.proc);
                return Ok(self.net.open_stream(open, listener, &self.body_sources, limit));
            }
            Action::CloseStream(stream) => return Ok(self.net.close_stream(*stream)),
            _ => {
                let command = self.command(action).map_err(|error| ("write", error))?;
                if let Some((proc, command)) = command {
                    let sent = self.processes.command(proc, command);
                    sent.map_err(|error| ("process command", error))?;
                }
            }
        }
        Ok(None)
    }

    /// Returns the command of an action, and its process.
    ///
    /// # Errors
    /// Returns an error if the text of the command is not available.
    pub(super) fn command(
        &mut self,
        action: &Action,
    ) -> Result<Option<(ProcKey, ProcessCommand)>, ActionError> {
        Ok(match action {
            Action::Write(write) => {
                let bytes = self.body_sources.body(&write.body)?;
                Some((write.proc, ProcessCommand::Write(bytes)))
            }
            Action::CloseStdin(proc) => Some((*proc, ProcessCommand::CloseStdin)),
            Action::Stop(stop) => {
                let grace = Duration::from_millis(stop.grace_ms.min(GRACE_MS_LIMIT).into());
                Some((stop.proc, ProcessCommand::Stop { signal: stop.signal, grace }))
            }
            _ => None,
        })
    }
}
