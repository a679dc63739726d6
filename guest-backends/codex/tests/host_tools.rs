//! Tools of the host in a recorded dialogue with `codex app-server` 0.169.0.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use aetheel_backend_sdk::dialogue::Play;
use aetheel_backend_sdk::fixture::{asks, tool_ends, tool_starts, unrecognised};
use aetheel_backend_sdk::wit::{
    Action, Command, HostTool, Input, Outcome, StartTurn, ToolRequest, ToolResult, ToolStatus,
    TurnRef,
};
use codex::Backend;
use support::{live, play, until_done};

fn with_tool() -> StartTurn {
    let tool = HostTool {
        name: "remember".to_owned(),
        description: "Saves a text.".to_owned(),
        input_schema: r#"{"type":"object","properties":{"text":{"type":"string"}}}"#.to_owned(),
    };
    StartTurn { tools: vec![tool], ..live("Remember hello") }
}

/// Plays up to the call.
fn called() -> (Play<Backend>, ToolRequest) {
    let mut play = play("live-host-tool");
    play.start(with_tool());
    match play.until(|action| matches!(action, Action::ToolRequest(_))) {
        Action::ToolRequest(request) => (play, request),
        other => panic!("{other:?}"),
    }
}

fn replies(play: &Play<Backend>) -> Vec<serde_json::Value> {
    let lines = play.written_with("contentItems");
    lines.iter().map(|line| line["result"].clone()).collect()
}

#[test]
fn a_tool_of_the_host_is_registered_and_its_result_reaches_the_agent() {
    let (mut play, request) = called();
    let started = &play.written_with("thread/start")[0]["params"]["dynamicTools"];
    assert_eq!(
        (&started[0]["type"], &started[0]["name"]),
        (&"function".into(), &"remember".into())
    );
    assert_eq!(started[0]["inputSchema"]["type"], "object");
    let expected = ToolRequest {
        call: 1,
        session: 1,
        turn: 1,
        name: "remember".to_owned(),
        input: r#"{"text":"hello"}"#.to_owned(),
    };
    assert_eq!(request, expected);
    play.input(Input::ToolResult(ToolResult { call: 1, text: "noted".into(), failed: false }));
    assert_eq!(replies(&play)[0]["contentItems"][0]["text"], "noted");
    assert_eq!(replies(&play)[0]["success"], true);
    assert_eq!(until_done(&mut play).outcome, Outcome::Completed);
    assert_eq!(tool_starts(&play.actions)[0].native_name, "remember");
    let end = tool_ends(&play.actions)[0].clone();
    assert_eq!((end.status, end.output.as_deref()), (ToolStatus::Ok, Some("noted")));
    assert!(asks(&play.actions).is_empty() && unrecognised(&play.actions).is_empty());
    play.command(Command::Shutdown).finish().check();
    assert!(play.check_moving() > 0, "another instance continues with the process");
}

#[test]
fn a_failed_call_is_a_failure_for_the_model() {
    let (mut play, _) = called();
    play.input(Input::ToolResult(ToolResult { call: 1, text: "no".into(), failed: true }));
    play.input(Input::ToolResult(ToolResult { call: 1, text: "no".into(), failed: true }));
    assert_eq!(replies(&play).len(), 1, "a call has one result");
    assert_eq!(replies(&play)[0]["success"], false);
}

#[test]
fn an_open_call_is_answered_when_its_turn_ends() {
    let (mut play, _) = called();
    play.command(Command::Interrupt(TurnRef { session: 1, turn: 1 }));
    until_done(&mut play);
    assert_eq!(replies(&play)[0]["success"], false);
    play.input(Input::ToolResult(ToolResult { call: 1, text: "late".into(), failed: false }));
    play.say(r#"{"id":9,"method":"item/tool/call","params":{"threadId":"x","turnId":"y","callId":"c","tool":"remember","arguments":{}}}"#);
    let requests =
        play.actions.iter().filter(|action| matches!(action, Action::ToolRequest(_))).count();
    assert_eq!((requests, replies(&play).len()), (1, 2), "no turn is running");
}

#[test]
fn a_turn_without_tools_registers_none() {
    let mut play = play("live-host-tool");
    play.start(live("Remember hello")).cut();
    play.say(r#"{"id":1,"result":{}}"#);
    assert!(!play.written.iter().any(|line| line.contains("dynamicTools")));
}
