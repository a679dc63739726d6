//! Calls of the gateway's tools.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::ToolResult;
use serde_json::json;

/// Passes a call of the agent to the gateway.
pub fn request(fields: &Value, emit: &mut Emit) {
    let input = fields.get("input").map_or_else(|| "{}".to_owned(), Value::to_string);
    emit.tool_request(fields.count("call").unwrap_or_default(), fields.string("name"), input);
}

/// Returns the line with which the agent gets the result of a call.
pub fn result_line(result: &ToolResult) -> String {
    let ToolResult { call, text, failed } = result;
    json!({"type": "result", "call": call, "text": text, "failed": failed}).to_string()
}
