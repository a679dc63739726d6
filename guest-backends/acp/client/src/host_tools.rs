//! Tools of the host. The protocol cannot carry their calls, so an agent that supports MCP servers
//! over HTTP gets the address of the host's server when a session is opened.

use aetheel_backend_sdk::TOOL_SERVER;
use aetheel_backend_sdk::wit::{Action, Chunk, Write};

/// Marks the place of the address within parameters. It cannot occur in JSON, which writes it as an
/// escape.
const MARK: char = '\u{1}';

/// Adds the host's server to the parameters that open a session, a JSON object that is not empty.
/// Its address is marked; see [`fill_address`].
pub(crate) fn with_server(params: &str) -> String {
    let rest = params.strip_prefix('{').unwrap_or(params);
    format!(
        r#"{{"mcpServers":[{{"type":"http","name":"{TOOL_SERVER}","url":"{MARK}","headers":[]}}],{rest}"#
    )
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

/// Returns whether the tool with this name of Claude Code is one of these tools of the host. Only
/// claude-agent-acp (0.49.0) names tools in a field that the model cannot fill in, so requests of
/// other agents go to people.
pub(crate) fn is_one_of(name: Option<&str>, tools: &[String]) -> bool {
    let name = name
        .and_then(|name| name.strip_prefix("mcp__")?.strip_prefix(TOOL_SERVER)?.strip_prefix("__"));
    name.is_some_and(|name| tools.iter().any(|tool| tool == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_the_host_has_the_prefix_of_its_server() {
        let tools = ["post".to_owned()];
        for (name, ours) in [
            (Some("mcp__aetheel__post"), true),
            (Some("mcp__aetheel__other"), false),
            (Some("mcp__evil__post"), false),
            (Some("post"), false),
            (None, false),
        ] {
            assert_eq!(is_one_of(name, &tools), ours, "{name:?}");
        }
    }
}
