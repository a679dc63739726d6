//! The MCP server on loopback with which agents call tools of the host, if their protocol cannot
//! carry the calls.
//!
//! The path of an address contains the secret of a link and a session ([`ToolEndpoints`]), and each
//! request is complete in itself. So an address stays valid if the gateway is restarted and gets the
//! same port. `rmcp` implements the protocol. Tested by `tests/dispatch/tool_server.rs`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::connection::{BoundedListener, HttpCaller, single_request};
use aetheel_model::supervisor;
use aetheel_turn::{ToolEndpoint, ToolEndpoints, ToolReply};

/// The largest number of simultaneous connections. A question occupies one until it is answered.
const CONNECTIONS: usize = 512;
/// The largest body of a request, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The running server. Dropping it closes it.
#[derive(Debug)]
pub struct ToolServer {
    /// The address of the listener.
    pub address: SocketAddr,
    serving: JoinHandle<()>,
}

impl ToolServer {
    /// Starts the server on loopback, and gives its address to the links that start from now on.
    /// Uses `port` if it is free, otherwise another one.
    ///
    /// # Errors
    /// The system's error if no port can be used.
    pub async fn open(port: Option<u16>, endpoints: ToolEndpoints) -> io::Result<Self> {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match port {
            Some(port) => match bind(port).await {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::warn!(port, %error, "the port of the tool server is taken; agents that still run cannot call host tools");
                    bind(0).await?
                }
            },
            None => bind(0).await?,
        };
        let address = listener.local_addr()?;
        endpoints.set_address(address);
        let serving = supervisor::spawn("tool server", async move {
            let service = router(endpoints).into_make_service_with_connect_info::<HttpCaller>();
            if let Err(error) =
                axum::serve(BoundedListener::new(listener, CONNECTIONS), service).await
            {
                tracing::error!(%error, "the tool server has stopped");
            }
        });
        Ok(Self { address, serving })
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn router(endpoints: ToolEndpoints) -> Router {
    Router::new()
        .route("/mcp/{secret}/{session}", post(serve))
        .layer(from_fn(single_request))
        .with_state(endpoints)
}

/// Answers one request of an MCP client.
async fn serve(
    State(endpoints): State<ToolEndpoints>,
    Path((secret, session)): Path<(String, u32)>,
    request: Request,
) -> Response {
    let Some(endpoint) = endpoints.find(&secret, session) else {
        tracing::warn!(session, "refused a request to the tool server: no agent has this address");
        return StatusCode::NOT_FOUND.into_response();
    };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_allowed_hosts(["127.0.0.1"])
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES);
    let tools = move || Ok(SessionTools(endpoint.clone()));
    let service =
        StreamableHttpService::new(tools, Arc::new(NeverSessionManager::default()), config);
    service.handle(request).await.map(Body::new)
}

/// The tools of one session.
struct SessionTools(ToolEndpoint);

impl ServerHandler for SessionTools {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("aetheel", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.0.tools().await.into_iter().filter_map(|tool| {
            let schema: JsonObject = serde_json::from_str(&tool.input_schema).ok()?;
            // Agents that only plan refuse tools that may change something.
            let annotations = ToolAnnotations::new().read_only(true);
            Some(Tool::new(tool.name, tool.description, schema).with_annotations(annotations))
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let input = serde_json::Value::Object(request.arguments.unwrap_or_default()).to_string();
        let ToolReply { text, failed } = tokio::select! {
            reply = self.0.call(request.name.into_owned(), input) => reply,
            // The client is gone. The call continues, for a client that calls again.
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("the call was cancelled", None));
            }
        };
        let content = vec![ContentBlock::text(text)];
        let result = match failed {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        Ok(result.into())
    }
}
