//! Unknown output, moving links and exiting agents: output is reported, and no turn ends twice.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use aetheel_backend_sdk::Backend as _;
use aetheel_backend_sdk::disturb::{Change, disturbed, survive};
use aetheel_backend_sdk::fixture::{
    Fixture, answers, events, is_done, line, run, shown, start, tool_ends, unrecognised,
};
use aetheel_backend_sdk::wit::{
    Action, AskKind, Command, Decision, EventKind, Exit, FailureKind, Input, Line, Outcome, Pipe,
    QueryKind, QueryResult, SpawnFailed, StartTurn, TurnRef, Unrecognised,
};
use codex::Backend;
use proptest::prelude::*;
use serde_json::json;
use support::{answer, careful, folder, inputs, live, play, query, until_ask, until_done};

/// Returns a link whose first turn runs in the recorded thread.
fn running() -> aetheel_backend_sdk::dialogue::Play<Backend> {
    let mut play = play("live-interrupt-mid-text");
    play.start(live("slow")).until_agent("turn/started");
    play.cut();
    play
}

const THREAD: &str = "01a1ffe2-83d8-7b12-9d8f-0fe6edc25da9";
const TURN: &str = "01a1ffe2-83ed-7052-8d4f-60651ffc868c";

fn told(method: &str, mut params: serde_json::Value) -> String {
    params["threadId"] = json!(THREAD);
    params["turnId"] = json!(TURN);
    json!({ "method": method, "params": params }).to_string()
}

fn item(life: &str, item: &serde_json::Value) -> String {
    told(&format!("item/{life}"), json!({ "item": item }))
}

#[test]
fn unknown_output_is_reported() {
    for (text, what) in [
        ("Debugger attached.".to_owned(), "line that is not a JSON object"),
        ("42".to_owned(), "line that is not a JSON object"),
        (r#"{"hello":1}"#.to_owned(), "message without a method"),
        (r#"{"id":99,"result":{}}"#.to_owned(), "answer without a request"),
        (told("item/aurora", json!({})), r#"notification "item/aurora""#),
        (json!({"method": "aurora"}).to_string(), r#"notification "aurora""#),
        (item("started", &json!({"type": "hologram", "id": "h"})), r#"item type "hologram""#),
        (item("completed", &json!({"id": "h"})), "item without a type"),
        (
            json!({"id": 5, "method": "aurora/ask", "params": {}}).to_string(),
            r#"request "aurora/ask""#,
        ),
    ] {
        let mut play = running();
        play.say(&text);
        let found: Vec<&Unrecognised> = unrecognised(&play.actions);
        assert_eq!(
            found.iter().map(|unknown| unknown.what.as_str()).collect::<Vec<_>>(),
            [what],
            "{text}"
        );
    }
    let mut play = running();
    play.say(r#"{"id":5,"method":"aurora/ask","params":{}}"#);
    assert!(play.written.last().unwrap().contains("-32601"), "requests are always answered");
    let cut =
        Line { proc: 1, pipe: Pipe::Stdout, text: "{\"method\":\"it".to_owned(), truncated: true };
    play.input(Input::Line(cut));
    assert_eq!(unrecognised(&play.actions).last().unwrap().what, "line longer than the limit");
}

#[test]
fn unknown_one_shot_output_is_reported_with_its_path() {
    for (text, what, path) in [
        ("Debugger attached.", "line that is not a JSON object", None),
        (r#"{"hello":1}"#, "line without a type", Some("type")),
        (r#"{"type":"hologram"}"#, r#"line type "hologram""#, Some("type")),
        (
            r#"{"type":"item.completed","item":{"type":"hologram"}}"#,
            r#"item type "hologram""#,
            Some("item.type"),
        ),
    ] {
        let actions = run::<Backend>(start("hi"), vec![line(Pipe::Stdout, text)]);
        let found = unrecognised(&actions);
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!((found[0].what.as_str(), found[0].path.as_deref()), (what, path));
    }
}

#[test]
fn output_outside_a_turn_is_logged() {
    let mut play = play("live-init-prompt-streaming");
    play.start(live("hi"));
    until_done(&mut play);
    let seen = play.actions.len();
    for text in [r#"{"method":"aurora","params":{}}"#, "noise"] {
        play.say(text);
    }
    assert!(
        play.actions[seen..].iter().all(|action| matches!(action, Action::Diagnostic(_))),
        "{:?}",
        &play.actions[seen..]
    );
    assert_eq!(play.actions.len(), seen + 2);
    play.say(r#"{"method":"thread/status/changed","params":{}}"#).say("");
    assert_eq!(play.actions.len(), seen + 2, "known irrelevant output is ignored");
}

#[test]
fn a_request_without_a_turn_is_refused() {
    let mut play = play("live-init-prompt-streaming");
    play.start(live("hi"));
    until_done(&mut play);
    play.cut();
    play.say(
        r#"{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"?","turnId":"?","itemId":"i","command":"rm"}}"#,
    );
    assert_eq!(play.written.last().unwrap(), r#"{"id":0,"result":{"decision":"decline"}}"#);
    assert!(!play.actions.iter().any(|action| matches!(action, Action::Ask(_))));
}

#[test]
fn an_answer_to_a_withdrawn_question_is_ignored() {
    let mut play = play("live-permission-command-accept");
    play.start(careful("touch"));
    let ask = until_ask(&mut play).ask;
    play.say(r#"{"method":"serverRequest/resolved","params":{"requestId":0}}"#);
    assert_eq!(play.actions.last(), Some(&Action::AskWithdrawn(ask)));
    let written = play.written.len();
    play.command(answer(ask, Decision::AllowOnce));
    assert_eq!(play.written.len(), written);
}

#[test]
fn questions_about_permissions_and_of_mcp_servers_reach_users() {
    let mut play = running();
    let params = json!({"itemId": "p", "cwd": "/", "reason": "to fetch", "permissions": {"network": {"enabled": true}, "fileSystem": null}});
    let mut request: serde_json::Value =
        serde_json::from_str(&told("item/permissions/requestApproval", params)).unwrap();
    request["id"] = json!(3);
    play.say(&request.to_string());
    let Some(Action::Ask(ask)) = play.actions.last().cloned() else { panic!("no ask") };
    assert_eq!(ask.title, "Allow: More permissions (to fetch)");
    play.command(answer(ask.ask, Decision::AllowAlways));
    let reply: serde_json::Value = serde_json::from_str(play.written.last().unwrap()).unwrap();
    assert_eq!(
        (&reply["result"]["scope"], &reply["result"]["permissions"]["network"]["enabled"]),
        (&json!("turn"), &json!(true))
    );

    let params = json!({"serverName": "db", "mode": "form", "message": "Run it?", "requestedSchema": {"type": "object", "properties": {}}});
    let mut request: serde_json::Value =
        serde_json::from_str(&told("mcpServer/elicitation/request", params)).unwrap();
    request["id"] = json!("four");
    play.say(&request.to_string());
    let Some(Action::Ask(ask)) = play.actions.last().cloned() else { panic!("no ask") };
    assert!(matches!(ask.kind, AskKind::Permission(_)));
    play.command(answer(ask.ask, Decision::DenyAndStop));
    let [reply, stop] = &play.written[play.written.len() - 2..] else { panic!() };
    assert!(
        reply.contains(r#""id":"four""#)
            && reply.contains(r#""action":"decline""#)
            && stop.contains("turn/interrupt"),
        "{reply} {stop}"
    );
}

#[test]
fn plans_titles_and_warnings_are_reported() {
    let mut play = running();
    play.say(&told("turn/plan/updated", json!({"plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "inProgress"}]})));
    play.say(&told("thread/name/updated", json!({"threadName": "Work"})));
    play.say(&told("warning", json!({"message": "Low disk"})));
    play.say(&item("completed", &json!({"type": "contextCompaction", "id": "c"})));
    let told: Vec<String> = events(&play.actions)
        .map(|event| match event {
            EventKind::Plan(plan) => {
                format!("{:?}", plan.iter().map(|entry| entry.status).collect::<Vec<_>>())
            }
            EventKind::Title(title) => title.clone(),
            EventKind::Notice(notice) => notice.text.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(told[1..3], ["Work", "Low disk"]);
    assert!(
        told[0].contains("Done") && told[0].contains("Active") && told[3].contains("done: true"),
        "{told:?}"
    );
}

#[test]
fn an_interrupted_message_is_withdrawn_before_a_retry() {
    let mut play = running();
    let delta = |id: &str, text: &str| {
        told("item/agentMessage/delta", json!({"itemId": id, "delta": text}))
    };
    play.say(&delta("m1", "Hel"));
    play.say(&told("error", json!({"willRetry": true, "error": {"message": "Reconnecting... 1/5", "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": null}}}})));
    play.say(&delta("m2", "Hello"));
    play.say(&item(
        "completed",
        &json!({"type": "agentMessage", "id": "m2", "text": "Hello there"}),
    ));
    assert_eq!(shown(&play.actions), ["Hello there"]);
    play.say(&json!({"method": "turn/completed", "params": {"threadId": THREAD, "turn": {"id": TURN, "status": "completed"}}}).to_string());
    assert_eq!(play.done()[0].text.as_deref(), Some("Hello there"));
}

#[test]
fn a_sub_agent_reports_to_its_tool_and_asks_users() {
    let mut play = running();
    play.say(&item(
        "started",
        &json!({"type": "collabAgentToolCall", "id": "s", "tool": "spawnAgent", "prompt": "look", "receiverThreadIds": ["child"]}),
    ));
    let said = json!({"threadId": "child", "turnId": "u", "item": {"type": "agentMessage", "id": "m", "text": "found"}});
    play.say(&json!({"method": "item/completed", "params": said}).to_string());
    assert!(
        events(&play.actions).any(|event| matches!(event, EventKind::ToolOutput(output) if output.id == "s" && output.text == "found"))
    );
    let params = json!({"threadId": "child", "turnId": "u", "itemId": "i", "command": "/bin/bash -lc 'rm x'"});
    play.say(
        &json!({"id": 8, "method": "item/commandExecution/requestApproval", "params": params})
            .to_string(),
    );
    assert!(
        matches!(play.actions.last(), Some(Action::Ask(ask)) if ask.title == "Run: rm x" && ask.parent.as_deref() == Some("s")),
        "{:?}",
        play.actions.last()
    );
    let params = json!({"threadId": "child", "turnId": "u", "itemId": "q", "isBlocking": false, "autoResolutionMs": 60000, "questions": []});
    play.say(
        &json!({"id": 9, "method": "item/tool/requestUserInput", "params": params}).to_string(),
    );
    assert!(
        matches!(play.actions.last(), Some(Action::Ask(ask)) if ask.deadline_ms == Some(60_000)),
        "{:?}",
        play.actions.last()
    );
    assert_eq!(shown(&play.actions), Vec::<String>::new(), "text of a sub-agent is not the answer");
}

#[test]
fn an_idle_link_moves_with_its_process_and_threads() {
    let mut play = play("live-init-prompt-streaming");
    assert_eq!(play.backend().save(), None, "there is no state to save");
    play.start(live("first"));
    assert_eq!(play.backend().save(), None, "no state can be saved during a turn");
    until_done(&mut play);
    play.reload().start(StartTurn { turn: 2, ..live("second") });
    let done = until_done(&mut play);
    assert_eq!((done.turn, done.outcome), (2, Outcome::Completed));
    assert_eq!(play.written_with("\"initialize\"").len(), 1, "Codex refuses a second handshake");
    assert_eq!(play.actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count(), 1);
    assert_eq!(
        play.written_with("turn/start")[1]["params"].as_object().unwrap().len(),
        2,
        "the current settings are still known"
    );
    let ids: Vec<_> = play.written.iter().filter_map(|line| number_of_request(line)).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "a number is used twice: {ids:?}");
    for state in ["", "{}", r#"{"form":2}"#, r#"{"form":3}"#, r#"{"form":1,"proc":1,"asks":0}"#] {
        assert!(Backend::default().load(state, "9").is_err(), "{state}");
    }
}

fn number_of_request(line: &str) -> Option<u64> {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line.get("method")?;
    line["id"].as_u64()
}

/// A checkpoint of an earlier version has no number of requests. The recording continues as that
/// version continued: with 1.
#[test]
fn a_state_without_the_number_of_requests_counts_from_one() {
    let mut play = play("live-init-prompt-streaming");
    play.start(live("first"));
    until_done(&mut play);
    let state: serde_json::Value =
        serde_json::from_str(&play.backend().save().unwrap()).unwrap();
    let mut old = state.as_object().unwrap().clone();
    old.insert("form".to_owned(), json!(2));
    old.remove("calls").expect("the number");
    let mut backend = Backend::default();
    backend.load(&json!(old).to_string(), "0.1.0").unwrap();
    let saved: serde_json::Value = serde_json::from_str(&backend.save().unwrap()).unwrap();
    assert_eq!(saved["calls"], "0");
    assert_eq!(saved["sessions"], state["sessions"]);
}

#[test]
fn a_missing_program_fails_everything_that_waits() {
    let mut play = support::play("live-init-prompt-streaming");
    play.start(live("hi")).command(query(1, None, QueryKind::Health));
    play.input(Input::SpawnFailed(SpawnFailed {
        proc: 1,
        message: "program not found: codex".to_owned(),
        not_found: true,
    }));
    assert!(
        matches!(play.outcomes()[0], Outcome::Failed(failure) if failure.kind == FailureKind::NotFound)
    );
    assert!(
        matches!(answers(&play.actions)[..], [QueryResult::Failed(failure)] if failure.kind == FailureKind::NotFound)
    );
}

#[test]
fn a_crash_loses_every_turn_and_question() {
    let mut play = play("live-two-threads-one-process");
    play.start(live("a"))
        .start(StartTurn { session: 2, turn: 2, ..live("b") })
        .until_agent("chunk1")
        .cut();
    play.command(query(1, None, QueryKind::Models)).exit(Exit::Signal(9));
    assert!(play.outcomes().iter().all(
        |outcome| matches!(outcome, Outcome::Lost(failure) if failure.kind == FailureKind::Crashed)
    ));
    assert_eq!((play.outcomes().len(), answers(&play.actions).len()), (2, 1));
    assert!(play.done()[0].usage.is_none());
}

#[test]
fn an_agent_that_refuses_the_handshake_is_stopped() {
    let mut play = play("live-init-prompt-streaming");
    play.start(live("hi"));
    let id = play.id_of("initialize").unwrap();
    play.say(&format!(r#"{{"id":{id},"error":{{"code":-32600,"message":"too new"}}}}"#));
    assert!(
        matches!(play.outcomes()[0], Outcome::Failed(failure) if failure.kind == FailureKind::Protocol && failure.message == "too new")
    );
    assert!(matches!(play.actions.last(), Some(Action::Stop(_))));
}

#[test]
fn a_closed_session_is_unsubscribed_and_a_second_turn_is_refused() {
    let mut play = play("live-init-prompt-streaming");
    play.start(live("first"));
    play.start(StartTurn { turn: 2, ..live("too early") });
    assert!(
        matches!(play.outcomes()[0], Outcome::Failed(failure) if failure.kind == FailureKind::Unsupported)
    );
    assert_eq!(until_done(&mut play).turn, 1);
    play.command(Command::CloseSession(1));
    assert!(play.written.last().unwrap().contains("thread/unsubscribe"));
    play.start(StartTurn { turn: 3, ..live("anew") });
    assert_eq!(play.written_with("thread/start").len(), 2);
    play.command(query(1, Some(7), QueryKind::Compact));
    assert!(
        answers(&play.actions)
            .iter()
            .all(|answer| matches!(answer, QueryResult::Failed(failure) if failure.kind == FailureKind::SessionUnknown))
    );
}

#[test]
fn a_blank_prompt_fails_the_turn_without_a_process() {
    let actions = run::<Backend>(live(" "), Vec::new());
    assert!(
        matches!(&actions[..], [Action::TurnDone(done)] if matches!(&done.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::BadRequest))
    );
}

/// Returns the inputs of a recorded dialogue, including its commands.
fn dialogue(case: &str) -> Vec<Input> {
    let mut play = play(case);
    match case {
        "live-two-threads-one-process" => drop(
            play.start(live("a")).start(StartTurn { session: 2, turn: 2, ..live("b") }).finish(),
        ),
        "live-permission-patch-accept" | "live-permission-command-decline" => {
            play.start(careful("x"));
            let ask = until_ask(&mut play).ask;
            play.command(answer(ask, Decision::AllowOnce)).finish();
        }
        "live-init-prompt-streaming" => {
            play.start(live("x")).until(is_done);
            play.command(query(1, Some(1), QueryKind::Compact)).command(query(
                2,
                None,
                QueryKind::Health,
            ));
            let id: u32 = play.id_of("thread/compact/start").unwrap().parse().unwrap();
            play.say(&json!({"id": id, "result": {}}).to_string());
            play.start(StartTurn { turn: 2, ..live("y") }).finish();
        }
        "live-interrupt-mid-tool" => {
            play.start(live("x")).until_host("turn/interrupt");
            play.command(Command::Interrupt(TurnRef { session: 1, turn: 1 })).finish();
        }
        _ => {
            play.start(live("x")).until(is_done);
            play.start(StartTurn { turn: 2, ..live("y") }).finish();
        }
    }
    inputs(&play)
}

fn dialogues() -> impl Strategy<Value = Vec<Input>> {
    let names = [
        "live-two-threads-one-process",
        "live-permission-patch-accept",
        "live-permission-command-decline",
        "live-interrupt-mid-tool",
        "live-init-prompt-streaming",
        "live-error-500-retry",
        "live-tool-danger",
        "live-request-user-input",
    ];
    prop::sample::select(names.map(dialogue).to_vec())
}

fn runs() -> impl Strategy<Value = Vec<Input>> {
    let names = [
        "plain",
        "tool-edit",
        "tool-plan",
        "tool-search",
        "error-500",
        "drop-mid",
        "mcp-tool",
        "resume-2",
        "max-tokens",
    ];
    let run = |name| {
        let inputs = Fixture::load(&folder().join(name)).inputs();
        std::iter::once(Input::Command(Command::StartTurn(start("x"))))
            .chain(inputs)
            .collect::<Vec<_>>()
    };
    prop::sample::select(names.map(run).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disturbed_dialogues_end_every_turn_once(calm in dialogues(), changes in prop::collection::vec(any::<Change>(), 0..12)) {
        survive::<Backend>(disturbed(&calm, &changes));
    }

    #[test]
    fn disturbed_runs_end_their_turn_once(calm in runs(), changes in prop::collection::vec(any::<Change>(), 0..12)) {
        survive::<Backend>(disturbed(&calm, &changes));
    }

    #[test]
    fn an_interrupted_dialogue_ends_every_turn_once(calm in dialogues(), at in any::<prop::sample::Index>()) {
        survive::<Backend>(calm[..at.index(calm.len())].to_vec());
    }

    #[test]
    fn any_text_is_accepted(text in "\\PC{0,200}") {
        let mut play = running();
        play.say(&text).say(&json!({"method": text, "params": {"threadId": THREAD, "turnId": TURN, "item": {"type": text}}}).to_string());
        prop_assert!(tool_ends(&play.actions).is_empty());
    }
}
