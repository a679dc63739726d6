//! The services and settings that a link uses.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::messages::{OnUnknown, UnsolicitedTurn};
use crate::tools::ToolRates;
use crate::{Host, Launcher, ToolEndpoints};
use aetheel_recording::Backend;

pub(crate) struct LinkDeps {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) host: Arc<Host>,
    /// Bound to one holder process once the link runs; see [`Launcher::bind`].
    pub(crate) launcher: Arc<dyn Launcher>,
    /// Receives turns that the agent begins by itself.
    pub(crate) unsolicited: mpsc::UnboundedSender<UnsolicitedTurn>,
    pub(crate) on_unknown: OnUnknown,
    /// The working directory of processes that do not belong to a session.
    pub(crate) cwd: PathBuf,
    /// The id of the link, used in logs and for its processes.
    pub(crate) id: String,
    pub(crate) tool_endpoints: ToolEndpoints,
    /// Counts the calls of host tools in each lane.
    pub(crate) tool_rates: ToolRates,
    /// The secret of the link in the address of the MCP server.
    pub(crate) tool_secret: String,
}

impl LinkDeps {
    /// Returns the installed version of the agent, if it is known.
    pub(super) fn agent_version(&self) -> Option<String> {
        self.host.agent_version(&self.backend.descriptor().name)
    }

    /// Returns the maximum length of a line and of a response body, in bytes.
    pub(super) fn line_limit(&self) -> usize {
        let host = self.host.resources.line;
        self.backend.descriptor().line_limit.map_or(host, |limit| host.min(limit as usize))
    }
}
