//! Tools of the host. Claude Code calls them as tools of an MCP server: it sends the messages to
//! the server over the control protocol (`mcp_message`), and the host carries out the calls.

use std::collections::BTreeMap;

use aetheel_backend_sdk::TOOL_SERVER;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{HostTool, ToolResult};
use serde_json::json;

use super::Conversation;
use super::asks::respond;
use crate::plan::TOOL_PREFIX;

/// The version of MCP if Claude Code does not name the one that it wants.
const PROTOCOL: &str = "2025-06-18";

/// Texts for the model.
const NO_TURN: &str = "This tool can be called only while a turn is running.";
const NO_TOOL: &str = "There is no such tool.";
const TURN_ENDED: &str = "The turn has ended.";

/// The calls that wait for the host, by their keys.
pub(super) type Calls = BTreeMap<u32, Call>;

/// A call that waits for its result. The ids are JSON.
#[derive(Debug)]
pub(super) struct Call {
    /// The id of the control request.
    request: String,
    /// The id of the message in it.
    message: String,
}

impl Call {
    /// Returns the line that answers the call.
    fn answer(&self, text: &str, failed: bool) -> String {
        let result = json!({"content": [{"type": "text", "text": text}], "isError": failed});
        self.reply("result", &result)
    }

    fn reply(&self, kind: &str, body: &serde_json::Value) -> String {
        let Self { request, message } = self;
        let reply = format!(r#"{{"jsonrpc":"2.0","id":{message},"{kind}":{body}}}"#);
        respond("success", request, &format!(r#""response":{{"mcp_response":{reply}}}"#))
    }
}

/// Returns whether the name is Claude Code's name of one of the offered tools.
pub(super) fn is_offered(name: &str, offered: &[HostTool]) -> bool {
    name.strip_prefix(TOOL_PREFIX).is_some_and(|name| offered.iter().any(|tool| tool.name == name))
}

impl Conversation {
    /// Handles a message to the MCP server.
    pub(super) fn handle_mcp(&mut self, message: &Value, context: &mut LinkContext) {
        let request = message["request_id"].to_string();
        let message = &message["request"]["message"];
        let id = match &message["id"] {
            // Claude Code waits for an answer to notifications too, and does not read it.
            Value::Null => "0".to_owned(),
            id => id.to_string(),
        };
        let call = Call { request, message: id };
        let line = match message.text("method") {
            Some("initialize") => call.reply(
                "result",
                &json!({
                    "protocolVersion": message["params"].text("protocolVersion").unwrap_or(PROTOCOL),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": TOOL_SERVER, "version": "1"},
                }),
            ),
            Some("tools/list") => {
                let tools: Vec<_> = self.process.offered.iter().map(listed).collect();
                call.reply("result", &json!({ "tools": tools }))
            }
            Some("tools/call") => return self.call_tool(call, &message["params"], context),
            Some("notifications/cancelled") => {
                let cancelled = message["params"]["requestId"].to_string();
                self.calls.retain(|_, open| open.message != cancelled);
                call.reply("result", &json!({}))
            }
            Some(method) if method == "ping" || message["id"].is_null() => {
                call.reply("result", &json!({}))
            }
            _ => call.reply("error", &json!({"code": -32601, "message": "method not found"})),
        };
        context.say(&line);
    }

    fn call_tool(&mut self, call: Call, params: &Value, context: &mut LinkContext) {
        let name = params.text("name").unwrap_or_default();
        let input = match &params["arguments"] {
            input @ Value::Object(_) => input.to_string(),
            _ => "{}".to_owned(),
        };
        match context.turn() {
            _ if !self.process.offered.iter().any(|tool| tool.name == name) => {
                context.say(&call.answer(NO_TOOL, true));
            }
            None => context.say(&call.answer(NO_TURN, true)),
            Some(turn) => {
                let key = context.tool_request(turn, name, input);
                self.calls.insert(key, call);
            }
        }
    }

    /// Sends the result of a call to the agent.
    pub(super) fn send_result(&mut self, result: &ToolResult, context: &mut LinkContext) {
        if let Some(call) = self.calls.remove(&result.call) {
            context.say(&call.answer(&result.text, result.failed));
        }
    }

    /// Forgets a call that the agent cancelled.
    pub(super) fn cancel_call(&mut self, request: &str) {
        self.calls.retain(|_, call| call.request != request);
    }

    /// Answers the calls of a turn that ends, because the host does not.
    pub(super) fn end_calls(&mut self, context: &mut LinkContext) {
        for call in std::mem::take(&mut self.calls).into_values() {
            context.say(&call.answer(TURN_ENDED, true));
        }
    }
}

/// Describes a tool as MCP does. Claude Code otherwise hides tools of MCP servers until the model
/// searches for them.
fn listed(tool: &HostTool) -> serde_json::Value {
    let schema: serde_json::Value = serde_json::from_str(&tool.input_schema).unwrap_or_default();
    let schema = if schema.is_object() { schema } else { json!({"type": "object"}) };
    json!({
        "name": tool.name, "description": tool.description, "inputSchema": schema,
        "_meta": {"anthropic/alwaysLoad": true},
    })
}
