//! Tools of the host, which Claude Code calls over the control protocol.

use aetheel_backend_sdk::fixture::{asks, tool_ends, tool_starts};
use aetheel_backend_sdk::wit::{
    Action, Command, Input, Outcome, ToolRequest, ToolResult, ToolStatus,
};

use crate::scenarios::{host_tool, with_tool};
use crate::{Conversation, at, launches, recorded, turn};

/// Returns the replies of the MCP server, in order.
fn replies(play: &Conversation) -> Vec<serde_json::Value> {
    let lines = play.written_with("mcp_response");
    lines.iter().map(|line| line["response"]["response"]["mcp_response"].clone()).collect()
}

fn requests(play: &Conversation) -> Vec<&ToolRequest> {
    play.actions
        .iter()
        .filter_map(|action| match action {
            Action::ToolRequest(request) => Some(request),
            _ => None,
        })
        .collect()
}

/// Sends a message to the MCP server.
fn say(play: &mut Conversation, request: &str, message: &str) {
    play.say(&format!(
        r#"{{"type":"control_request","request_id":"{request}","request":{{"subtype":"mcp_message","server_name":"aetheel","message":{message}}}}}"#
    ));
}

fn call(play: &mut Conversation, number: u32, name: &str) {
    let params = format!(r#"{{"name":"{name}","arguments":{{"text":"x"}}}}"#);
    say(
        play,
        &format!("r{number}"),
        &format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}"#),
    );
}

/// Starts a turn with a tool, up to the first text of the agent.
fn running() -> Conversation {
    let mut play = recorded("two-turns");
    play.start(with_tool(1)).until_agent("\"assistant\"");
    play
}

#[test]
fn a_tool_of_the_host_is_called_without_a_question_and_its_result_reaches_the_agent() {
    let play = host_tool();
    let hello = &play.written_with("initialize")[0]["request"];
    assert_eq!(hello["sdkMcpServers"], serde_json::json!(["aetheel"]));
    let tools = &replies(&play)[2]["result"]["tools"];
    assert_eq!(tools[0]["name"], "remember");
    assert_eq!(tools[0]["inputSchema"]["type"], "object");
    let expected = ToolRequest {
        call: 1,
        session: 1,
        turn: 1,
        name: "remember".to_owned(),
        input: r#"{"text":"hello"}"#.to_owned(),
    };
    assert_eq!(requests(&play), [&expected]);
    assert!(asks(&play.actions).is_empty());
    let reply = replies(&play).pop().unwrap();
    assert_eq!(reply["result"]["content"][0]["text"], "noted");
    assert_eq!(reply["result"]["isError"], false);
    assert_eq!(tool_starts(&play.actions)[0].native_name, "mcp__aetheel__remember");
    assert_eq!(tool_ends(&play.actions)[0].status, ToolStatus::Ok);
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert!(play.check_moving() > 0, "another instance continues with the process");
}

#[test]
fn a_turn_without_tools_offers_no_server_and_asks_about_tools_of_that_name() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("\"assistant\"");
    assert!(play.written_with("initialize")[0]["request"]["sdkMcpServers"].is_null());
    call(&mut play, 1, "remember");
    assert_eq!(replies(&play)[0]["result"]["isError"], true);
    play.say(
        r#"{"type":"control_request","request_id":"r2","request":{"subtype":"can_use_tool","tool_name":"mcp__aetheel__remember","input":{}}}"#,
    );
    assert_eq!((requests(&play).len(), asks(&play.actions).len()), (0, 1));
}

#[test]
fn other_tools_of_the_host_need_another_process() {
    let mut play = recorded("two-turns");
    play.start(with_tool(1)).until(|action| matches!(action, Action::TurnDone(_)));
    play.start(with_tool(2)).cut();
    assert_eq!(launches(&play).len(), 1);
    let mut play = recorded("two-turns");
    play.start(with_tool(1)).until(|action| matches!(action, Action::TurnDone(_)));
    play.start(turn(2));
    assert!(play.actions.contains(&Action::CloseStdin(1)), "the agent is asked to exit");
}

#[test]
fn a_failed_call_is_an_error_for_the_model() {
    let mut play = running();
    call(&mut play, 7, "remember");
    let failed = ToolResult { call: 1, text: "the disk is full".to_owned(), failed: true };
    play.input(Input::ToolResult(failed));
    let reply = replies(&play).pop().unwrap();
    assert_eq!((&reply["id"], &reply["result"]["isError"]), (&7.into(), &true.into()));
    assert_eq!(reply["result"]["content"][0]["text"], "the disk is full");
}

#[test]
fn every_message_is_answered_and_a_cancelled_call_only_once() {
    let mut play = running();
    call(&mut play, 1, "gone");
    assert_eq!(replies(&play)[0]["result"]["isError"], true, "the tool does not exist");
    for (number, message) in [
        (2, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#),
        (3, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        (4, r#"{"jsonrpc":"2.0","id":4,"method":"resources/list"}"#),
    ] {
        say(&mut play, &format!("r{number}"), message);
        assert_eq!(replies(&play).len(), number);
    }
    assert_eq!(replies(&play)[3]["error"]["code"], -32601);
    call(&mut play, 5, "remember");
    call(&mut play, 6, "remember");
    say(
        &mut play,
        "r7",
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#,
    );
    play.say(r#"{"type":"control_cancel_request","request_id":"r6"}"#);
    let before = replies(&play).len();
    for call in [1, 2, 9] {
        play.input(Input::ToolResult(ToolResult { call, text: String::new(), failed: false }));
    }
    assert_eq!((requests(&play).len(), replies(&play).len()), (2, before));
}

#[test]
fn calls_of_a_turn_that_ends_are_answered() {
    let mut play = running();
    call(&mut play, 1, "remember");
    play.until(|action| matches!(action, Action::TurnDone(_)));
    assert_eq!(replies(&play)[0]["result"]["isError"], true);
    let mut interrupted = running();
    call(&mut interrupted, 1, "remember");
    interrupted.command(Command::Interrupt(at(1)));
    interrupted.until(|action| matches!(action, Action::TurnDone(_)));
    assert_eq!(replies(&interrupted).len(), 1);
    call(&mut interrupted, 2, "remember");
    assert_eq!(replies(&interrupted)[1]["result"]["isError"], true, "no turn is running");
}
