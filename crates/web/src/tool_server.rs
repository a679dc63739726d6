//! The MCP server with which agents call tools of the host, if their protocol cannot carry the calls.
//!
//! Agents connect to the tool relay, which outlives the gateway. It sends their requests to this
//! server over a Unix socket, each with a number, and repeats a request if the gateway ends before
//! its response. The path of an address contains the secret of a link and a session
//! ([`ToolEndpoints`]). `rmcp` implements the protocol. Tested by `tests/dispatch/tool_server.rs`.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
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
use tokio::net::UnixListener;

use super::connection::ServerTask;
use aetheel_turn::{ToolEndpoint, ToolEndpoints, ToolReply};

/// The largest body of a request, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The running server. Dropping it closes it.
#[derive(Debug)]
pub struct ToolServer {
    _task: ServerTask,
}

impl ToolServer {
    /// Serves the relay. `number` is the header with the number of a request.
    #[must_use]
    pub fn open(listener: UnixListener, number: &'static str, endpoints: ToolEndpoints) -> Self {
        let router = Router::new()
            .route("/mcp/{secret}/{session}", post(serve))
            .with_state(ServerState { number, endpoints });
        Self { _task: ServerTask::spawn("tool server", axum::serve(listener, router)) }
    }
}

#[derive(Clone)]
struct ServerState {
    /// The header with the number of a request.
    number: &'static str,
    endpoints: ToolEndpoints,
}

/// Answers one request of an MCP client.
async fn serve(
    State(ServerState { number, endpoints }): State<ServerState>,
    Path((secret, session)): Path<(String, u32)>,
    request: Request,
) -> Response {
    let Some(endpoint) = endpoints.find(&secret, session) else {
        if endpoints.are_restoring() {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        tracing::warn!(session, "refused a request to the tool server: no agent has this address");
        return StatusCode::NOT_FOUND.into_response();
    };
    let number =
        request.headers().get(number).and_then(|number| number.to_str().ok()?.parse().ok());
    let Some(number) = number else { return StatusCode::BAD_REQUEST.into_response() };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(["127.0.0.1"])
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES);
    let tools = move || Ok(SessionTools { endpoint: endpoint.clone(), number });
    let service =
        StreamableHttpService::new(tools, Arc::new(NeverSessionManager::default()), config);
    service.handle(request).await.map(Body::new)
}

/// The tools of one session, for one request.
struct SessionTools {
    endpoint: ToolEndpoint,
    /// The number of the request.
    number: u32,
}

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
        let tools = self.endpoint.tools().await.into_iter().filter_map(|tool| {
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
            reply = self.endpoint.call(self.number, request.name.into_owned(), input) => reply,
            // The client is gone. The call continues, for its repeated request.
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
