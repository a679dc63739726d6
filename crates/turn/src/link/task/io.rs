//! The connections of a link to the world: its processes, files and requests.

use tokio::sync::{mpsc, watch};

use crate::link::LinkDeps;
use crate::link::files::{BodySources, LinkFiles};
use crate::link::net::Net;
use crate::link::processes::LinkProcesses;
use crate::link::reads::FileReads;
use crate::tool_endpoints::EndpointRequest;
use aetheel_model::agent::{Action, Input};
use aetheel_recording::Recording;

pub(super) struct LinkIo {
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
            processes: LinkProcesses::default(),
            net: Net::new(),
            files: LinkFiles::new(&deps.launcher.scratch_prefix(), held),
            body_sources: BodySources::new(deps.tool_endpoints.address_of(&deps.tool_secret)),
            reads: FileReads::default(),
            endpoint,
            progress: recording.progress().filter(|_| held),
        }
    }

    /// Begins or ends an HTTP request or a stream. Returns an input at once if that fails. `limit`
    /// is the maximum size of a response body, in bytes.
    pub(super) fn use_net(&mut self, action: Action, limit: usize) -> Option<Input> {
        match action {
            Action::Http(request) => {
                let listener = self.processes.listener(request.proc);
                self.net.request(request, listener, &mut self.body_sources, limit)
            }
            Action::OpenStream(open) => {
                let listener = self.processes.listener(open.proc);
                self.net.open_stream(&open, listener, &self.body_sources, limit)
            }
            Action::CloseStream(stream) => self.net.close_stream(stream),
            _ => None,
        }
    }
}
