//! Starts the MCP server for tools of the host, and the relay that agents connect to if the holder
//! has none.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tempfile::TempDir;

use aetheel_dispatch::Dispatcher;
use aetheel_model::plain::with_causes;
use aetheel_process::holder::HeldLauncher;
use aetheel_process::tool_relay::{REQUEST_NUMBER, ToolRelay, listen_for_relay};
use aetheel_settings::Config;
use aetheel_turn::ToolEndpoints;
use aetheel_web::tool_server::ToolServer;

/// The running server. Dropping it closes it.
#[derive(Debug)]
pub struct ToolService {
    /// The address that agents connect to.
    pub address: SocketAddr,
    _server: ToolServer,
    _relay: Option<ToolRelay>,
    /// The folder of the socket of a program without a state folder.
    _folder: Option<TempDir>,
}

/// Starts the server. Returns `None` if the operator allows no tool, or if the server cannot start,
/// which is logged. `state` is the folder of the gateway's state, or `None` for a program whose
/// agents end with it.
pub async fn open(
    config: &Config,
    dispatcher: &Dispatcher,
    state: Option<&Path>,
    holder: Option<&HeldLauncher>,
) -> Option<ToolService> {
    if config.host_tools.is_empty() {
        return None;
    }
    let endpoints = dispatcher.tool_endpoints.clone();
    match ToolService::start(&endpoints, state, holder).await {
        Ok(service) => {
            tracing::debug!(address = %service.address, "the tool server is ready");
            endpoints.set_address(service.address);
            Some(service)
        }
        Err(error) => {
            let error = with_causes(&error);
            tracing::error!(
                error,
                "cannot start the tool server; agents get no host tools until the next start; hint: HOST_TOOLS=none, if they are not needed"
            );
            endpoints.set_unavailable();
            None
        }
    }
}

impl ToolService {
    async fn start(
        endpoints: &ToolEndpoints,
        state: Option<&Path>,
        holder: Option<&HeldLauncher>,
    ) -> io::Result<Self> {
        let folder = match state {
            Some(_) => None,
            None => Some(tempfile::tempdir()?),
        };
        let state = state.or(folder.as_ref().map(TempDir::path)).unwrap_or(Path::new("."));
        let server = ToolServer::open(listen_for_relay(state)?, REQUEST_NUMBER, endpoints.clone());
        let (port, relay) = match holder.and_then(HeldLauncher::tool_port) {
            Some(port) => (port, None),
            None => {
                let relay = ToolRelay::open(state).await?;
                (relay.port, Some(relay))
            }
        };
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Ok(Self { address, _server: server, _relay: relay, _folder: folder })
    }
}
