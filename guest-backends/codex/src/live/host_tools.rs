//! Tools of the host, which `thread/start` registers as dynamic tools. Codex stores them with the
//! thread, so a resumed thread has those it was started with.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{HostTool, ToolResult, TurnRef};
use serde_json::json;

use super::Codex;

/// Texts for the model.
const NO_TURN: &str = "This tool can be called only while a turn is running.";
const TURN_ENDED: &str = "The turn has ended.";

/// A call that waits for its result.
#[derive(Debug)]
pub(super) struct HostCall {
    /// The id of the request, as JSON.
    id: String,
    session: u32,
}

/// Returns the tools in the form of `dynamicTools`.
pub(super) fn dynamic(tools: &[HostTool]) -> serde_json::Value {
    let tools = tools.iter().map(|tool| {
        let schema: serde_json::Value = serde_json::from_str(&tool.input_schema).unwrap_or_default();
        let schema = if schema.is_object() { schema } else { json!({ "type": "object" }) };
        json!({
            "type": "function", "name": tool.name, "description": tool.description, "inputSchema": schema,
        })
    });
    tools.collect()
}

fn result(text: &str, success: bool) -> String {
    json!({ "contentItems": [{ "type": "inputText", "text": text }], "success": success })
        .to_string()
}

impl Codex {
    /// Handles a call (`item/tool/call`).
    pub(super) fn call_tool(&mut self, id: String, params: &Value, context: &mut LinkContext) {
        if !context.is_ready() || self.host_calls.values().any(|call| call.id == id) {
            return;
        }
        let Some((session, turn)) = self.asked_of(params) else {
            return self.calls.result(context.proc(), &id, &result(NO_TURN, false), context.out());
        };
        let input = match &params["arguments"] {
            input @ Value::Object(_) => input.to_string(),
            _ => "{}".to_owned(),
        };
        let name = params.text("tool").unwrap_or_default();
        let call = context.tool_request(TurnRef { session, turn }, name, input);
        self.host_calls.insert(call, HostCall { id, session });
    }

    /// Sends the result of a call to the agent.
    pub(super) fn send_result(&mut self, done: &ToolResult, context: &mut LinkContext) {
        if let Some(call) = self.host_calls.remove(&done.call).filter(|_| context.is_ready()) {
            let result = result(&done.text, !done.failed);
            self.calls.result(context.proc(), &call.id, &result, context.out());
        }
    }

    /// Answers the calls of a turn that ends, because the host does not.
    pub(super) fn end_calls(&mut self, session: u32, context: &mut LinkContext) {
        for (_, call) in self.host_calls.extract_if(.., |_, call| call.session == session) {
            if context.is_ready() {
                let result = result(TURN_ENDED, false);
                self.calls.result(context.proc(), &call.id, &result, context.out());
            }
        }
    }
}
