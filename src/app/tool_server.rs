//! Starts the MCP server for tools of the host, on the same port as the previous gateway process, so
//! that agents which outlived that process can continue to call the tools.

use std::path::Path;

use crate::config::Config;
use crate::disk::replace;
use crate::dispatch::Dispatcher;
use crate::plain::with_causes;
use crate::web::tool_server::ToolServer;

/// The file with the port, in the folder of the state.
const PORT_FILE: &str = "tool-server.md";

/// The beginning of the line with the port.
const PORT: &str = "- port: ";

/// Starts the server. Returns `None` if the operator allows no tool, or if the server cannot start,
/// which is logged. `state` is the folder of the gateway's state, or `None` for a program whose
/// agents end with it.
pub async fn open(
    config: &Config,
    dispatcher: &Dispatcher,
    state: Option<&Path>,
) -> Option<ToolServer> {
    if config.host_tools.is_empty() {
        return None;
    }
    let file = state.map(|state| state.join(PORT_FILE));
    let saved = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let port =
        saved.and_then(|text| text.lines().find_map(|line| line.strip_prefix(PORT)?.parse().ok()));
    let endpoints = dispatcher.tool_endpoints.clone();
    let server = match ToolServer::open(port, endpoints.clone()).await {
        Ok(server) => server,
        Err(error) => {
            let error = with_causes(&error);
            tracing::error!(
                error,
                "cannot start the tool server on 127.0.0.1; agents get no host tools until the next start; hint: HOST_TOOLS=none, if they are not needed"
            );
            endpoints.set_unavailable();
            return None;
        }
    };
    tracing::debug!(address = %server.address, "the tool server is ready");
    if let Some(file) = file.filter(|_| port != Some(server.address.port()))
        && let Err(error) = replace(&file, port_file(&server).as_bytes())
    {
        tracing::warn!(%error, file = %file.display(), "cannot save the port of the tool server; after a restart, running agents cannot call host tools");
    }
    Some(server)
}

fn port_file(server: &ToolServer) -> String {
    format!("# The tool server\n\n{PORT}{}\n", server.address.port())
}
