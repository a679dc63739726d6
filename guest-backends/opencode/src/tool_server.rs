//! The host's MCP server with the tools of the host.
//!
//! OpenCode 1.18.33 has MCP servers for each directory, common to all sessions in it. An address of
//! the host belongs to one session, so `opencode serve` gets a server for each session, and the
//! rules of a session deny the tools of the others. A one-shot run gets it in its configuration.

use aetheel_backend_sdk::TOOL_SERVER;
use aetheel_backend_sdk::wit::Chunk;
use serde_json::json;

/// The name in a one-shot run.
pub(crate) const ONCE: &str = TOOL_SERVER;
/// The longest time of a call in milliseconds: a day. A call can wait for people, and OpenCode's
/// default is shorter.
const CALL_TIMEOUT_MS: u32 = 86_400_000;

/// Returns the name of the server for a session.
pub(crate) fn of_session(session: u32) -> String {
    format!("{TOOL_SERVER}-{session}")
}

/// Returns a pattern for the tools of all servers for sessions.
pub(crate) fn of_all_sessions() -> String {
    format!("{TOOL_SERVER}-*")
}

/// Returns a pattern for the tools of a server.
pub(crate) fn tools(server: &str) -> String {
    format!("{server}_*")
}

/// Returns the name of a tool without the name of the host's server, which means nothing to people.
pub(crate) fn without_server(tool: &str) -> &str {
    let is_of_host = |server: &str, name: &str| {
        server.starts_with(TOOL_SERVER) && name.starts_with(&format!("{TOOL_SERVER}_"))
    };
    match tool.split_once('_') {
        Some((server, name)) if is_of_host(server, name) => name,
        _ => tool,
    }
}

/// Returns the body of the request that adds the server for a session.
pub(crate) fn registration(session: u32) -> Vec<Chunk> {
    let before = format!(r#"{{"name":{},"config":"#, json!(of_session(session)));
    [vec![Chunk::Text(before)], entry(session), vec![Chunk::Text("}".to_owned())]].concat()
}

/// Returns the server's entry in a configuration.
pub(crate) fn entry(session: u32) -> Vec<Chunk> {
    let after = format!(r#"","oauth":false,"timeout":{CALL_TIMEOUT_MS}}}"#);
    vec![
        Chunk::Text(r#"{"type":"remote","url":""#.to_owned()),
        Chunk::ToolServer(session),
        Chunk::Text(after),
    ]
}
