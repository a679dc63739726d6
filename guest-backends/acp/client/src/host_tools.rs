//! Tools of the host. The protocol cannot carry their calls, so an agent that supports MCP servers
//! over HTTP gets the address of the host's server when a session is opened.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Action, Chunk, Write};

/// The name of the server.
const SERVER: &str = "aetheel";
/// Marks the place of the address within parameters. It cannot occur in JSON, which writes it as an
/// escape.
const MARK: char = '\u{1}';
/// The list of servers in parameters. Within a string, the quotes would be escaped.
const NO_SERVERS: &str = r#""mcpServers":[]"#;

/// Adds the host's server to the parameters that open a session. Its address is marked; see
/// [`fill_address`].
pub(crate) fn with_server(params: &str) -> String {
    let server = format!(
        r#""mcpServers":[{{"type":"http","name":"{SERVER}","url":"{MARK}","headers":[]}}]"#
    );
    params.replacen(NO_SERVERS, &server, 1)
}

/// Replaces the mark in the last write action by the address for a session.
pub(crate) fn fill_address(session: u32, out: &mut [Action]) {
    let Some(Action::Write(Write { body, .. })) = out.last_mut() else { return };
    let [Chunk::Text(text)] = &body[..] else { return };
    if let Some((before, after)) = text.split_once(MARK) {
        let text = |text: &str| Chunk::Text(text.to_owned());
        *body = vec![text(before), Chunk::ToolServer(session), text(after)];
    }
}

/// Returns whether a permission request is about one of these tools of the host. Only
/// claude-agent-acp (0.49.0) names the tool in a field that the model cannot fill in. Other agents
/// ask people.
pub(crate) fn is_call(call: &Value, tools: &[String]) -> bool {
    let name = call["_meta"]["claudeCode"]
        .text("toolName")
        .and_then(|name| name.strip_prefix("mcp__")?.strip_prefix(SERVER)?.strip_prefix("__"));
    name.is_some_and(|name| tools.iter().any(|tool| tool == name))
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::json::parse;

    use super::*;

    #[test]
    fn only_the_agents_own_field_identifies_a_tool_of_the_host() {
        let tools = ["post".to_owned()];
        for (call, ours) in [
            (r#"{"_meta":{"claudeCode":{"toolName":"mcp__aetheel__post"}}}"#, true),
            (r#"{"_meta":{"claudeCode":{"toolName":"mcp__aetheel__other"}}}"#, false),
            (r#"{"_meta":{"claudeCode":{"toolName":"mcp__evil__post"}}}"#, false),
            (
                r#"{"title":"mcp__aetheel__post","rawInput":{"toolName":"mcp__aetheel__post"}}"#,
                false,
            ),
        ] {
            assert_eq!(is_call(&parse(call).expect("JSON"), &tools), ours, "{call}");
        }
    }
}
