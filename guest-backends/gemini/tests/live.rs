//! Recorded dialogues with `gemini --acp` 0.61.0, played to the backend.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use std::path::Path;

use aetheel_backend_sdk::dialogue::{Play, json_rpc};
use aetheel_backend_sdk::disturb::{Change, disturbed, survive};
use aetheel_backend_sdk::fixture::{self, TURN, events, host_tool, is_done};
use aetheel_backend_sdk::wit::{
    Action, Answer, Ask, AskKind, Attachment, Chunk, Command, Decision, EventKind, Exit, Exited,
    FailureKind, Input, Outcome, Part, Query, QueryKind, QueryResult, Safety, StartTurn,
    ToolStatus, TurnDone, TurnRef, Value,
};
use gemini::Backend;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

fn play(name: &str) -> Play<Backend> {
    Play::load(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/gemini").join(name),
        json_rpc,
    )
}

fn turn(number: u32) -> StartTurn {
    let mut start = fixture::start("hello");
    (start.turn, start.one_shot) = (number, false);
    start.settings.safety = Safety::Default;
    "/srv/project".clone_into(&mut start.cwd);
    start
}

fn next(play: &Play<Backend>, number: u32) -> StartTurn {
    let ready = play.actions.iter().rev().find_map(|action| {
        if let Action::SessionReady(ready) = action { Some(ready) } else { None }
    });
    StartTurn { native_id: Some(ready.unwrap().native_id.clone()), ..turn(number) }
}

fn done(play: &mut Play<Backend>) -> TurnDone {
    let Action::TurnDone(done) = play.until(is_done) else { panic!("no end") };
    done
}

fn asked(play: &mut Play<Backend>) -> Ask {
    let Action::Ask(ask) = play.until(|action| matches!(action, Action::Ask(_))) else {
        panic!("no ask")
    };
    ask
}

fn answer(play: &mut Play<Backend>, ask: u32, decision: Decision) {
    play.command(Command::Answer(Answer { ask, decision }));
}

fn text(actions: &[Action], turn: u32) -> String {
    let said =
        |action: &Action| match action {
            Action::Event(event) if event.turn == turn => {
                if let EventKind::Text(text) = &event.kind { Some(text.text.clone()) } else { None }
            }
            _ => None,
        };
    actions.iter().filter_map(said).collect()
}

#[test]
fn changed_allowed_tools_restart_the_agent() {
    let mut play = play("live-init-prompt-streaming");
    let mut first = turn(1);
    first.settings.allowed_tools = vec!["read_file".to_owned()];
    play.start(first);
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    let policies = |play: &Play<Backend>| {
        play.actions.iter().filter(|action| matches!(action, Action::PutFile(_))).count()
    };
    let spawned = |play: &Play<Backend>| {
        play.actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count()
    };
    let put = play.actions.iter().position(|action| matches!(action, Action::PutFile(_))).unwrap();
    assert!(
        matches!(&play.actions[put + 1], Action::Spawn(spawn) if spawn.arguments.len() == 3),
        "{:?}",
        play.actions[put + 1]
    );
    let mut second = next(&play, 2);
    second.settings.allowed_tools = vec!["glob".to_owned()];
    play.start(second);
    let left = play.actions.iter().any(|action| matches!(action, Action::CloseStdin(1)));
    assert!(
        left && spawned(&play) == 1,
        "the process with other tools exits before it gets a prompt: {:?}",
        play.actions.last()
    );
    play.input(Input::Exited(Exited { proc: 1, how: Exit::Code(0), stderr_tail: String::new() }));
    assert_eq!((policies(&play), spawned(&play)), (2, 2));
}

#[test]
fn tools_of_the_host_are_allowed_without_asking() {
    let mut play = play("live-init-prompt-streaming");
    let mut first = turn(1);
    first.tools = vec![host_tool("post")];
    first.settings.allowed_tools = vec!["read_file".to_owned()];
    play.start(first);
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    let put = play.actions.iter().filter_map(|action| match action {
        Action::PutFile(file) => Some((file.name.as_str(), &file.body[..])),
        _ => None,
    });
    let [_, (name, [Chunk::Text(rules)])] = put.collect::<Vec<_>>()[..] else {
        panic!("{:?}", play.actions)
    };
    assert_eq!(
        (name, rules.as_str()),
        (
            "host-tools.toml",
            "[[rule]]\ntoolName = \"mcp_aetheel_post\"\ndecision = \"allow\"\npriority = 999\n\n"
        )
    );
    let spawned = play.actions.iter().filter_map(|action| match action {
        Action::Spawn(spawn) => Some(spawn.arguments.clone()),
        _ => None,
    });
    let [arguments] = &spawned.collect::<Vec<_>>()[..] else { panic!("one process") };
    let flag = Value::Text("--admin-policy".to_owned());
    assert!(arguments.ends_with(&[flag, Value::File(name.to_owned())]), "{arguments:?}");
    let mut second = next(&play, 2);
    second.settings.allowed_tools = vec!["read_file".to_owned()];
    play.start(second);
    assert_eq!(done(&mut play).outcome, Outcome::Completed, "a turn without them needs no restart");
}

#[test]
fn a_conversation_reports_text_thinking_and_usage() {
    let mut play = play("live-init-prompt-streaming");
    play.start(turn(1));
    let first = done(&mut play);
    assert_eq!(first.text.as_deref(), Some("Hello there from the mock model."));
    let usage = first.usage.clone().unwrap();
    assert_eq!((usage.input, usage.output, usage.cost_usd), (100, 20, None));
    assert!(events(&play.actions).any(|event| matches!(event, EventKind::Thinking(text) if text.text.contains("Let me think about it."))));
    let second = next(&play, 2);
    play.start(second);
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    assert_eq!(text(&play.actions, 2), "Second turn in the same session.");
    assert!(!events(&play.actions).any(|event| matches!(event, EventKind::Unrecognised(_))));
    play.finish().check();
}

#[test]
fn a_tool_first_named_by_its_question_is_reported_and_ends_as_denied() {
    let mut play = play("live-permission-reject-once");
    play.start(turn(1));
    for _ in 0..2 {
        let ask = asked(&mut play);
        let AskKind::Permission(tool) = &ask.kind else { panic!("{ask:?}") };
        assert_eq!((tool.kind.as_str(), tool.native_name.as_str()), ("bash", "run_shell_command"));
        assert_eq!(tool.target.as_deref(), Some(ask.title.as_str()), "the command is the title");
        assert!(
            events(&play.actions)
                .any(|event| matches!(event, EventKind::ToolStart(start) if start == tool))
        );
        assert_eq!(ask.always_label.as_deref(), Some("Allow for this session"));
        answer(&mut play, ask.ask, Decision::Deny(None));
    }
    let end = done(&mut play);
    assert_eq!((end.outcome, end.text.as_deref()), (Outcome::Completed, Some("After the answer.")));
    let statuses: Vec<_> = events(&play.actions)
        .filter_map(
            |event| if let EventKind::ToolEnd(end) = event { Some(end.status) } else { None },
        )
        .collect();
    assert_eq!(statuses, [ToolStatus::Denied; 2]);
    play.finish().check();
}

#[test]
fn an_edit_is_reported_with_its_changes() {
    let mut play = play("live-write-edit");
    play.start(turn(1));
    let ask = asked(&mut play);
    let AskKind::Permission(tool) = &ask.kind else { panic!("{ask:?}") };
    assert_eq!(
        (tool.kind.as_str(), tool.target.as_deref()),
        ("file_write", Some("/srv/project/a.txt"))
    );
    answer(&mut play, ask.ask, Decision::AllowOnce);
    assert_eq!(done(&mut play).text.as_deref(), Some("Written."));
    assert!(events(&play.actions).any(|event| matches!(event, EventKind::ToolEnd(end) if end.status == ToolStatus::Ok && end.diffs[0].new_text.as_deref() == Some("one\ntwo"))));
    play.finish().check();
}

#[test]
fn decisions_select_options_of_the_agent() {
    for (name, decision, option) in [
        ("live-permission-allow-once", Decision::AllowOnce, "proceed_once"),
        ("live-permission-allow-always", Decision::AllowAlways, "proceed_always"),
    ] {
        let mut play = play(name);
        play.start(turn(1));
        let ask = asked(&mut play).ask;
        answer(&mut play, ask, decision);
        assert_eq!(play.written_with("\"outcome\"")[0]["result"]["outcome"]["optionId"], option);
    }
}

#[test]
fn interrupts_end_the_turn_during_text_and_questions() {
    let mut text_play = play("live-interrupt-mid-text");
    text_play
        .start(turn(1))
        .until_host("session/cancel")
        .command(Command::Interrupt(TurnRef { session: TURN.session, turn: 1 }));
    assert_eq!(done(&mut text_play).outcome, Outcome::Interrupted);
    let second = next(&text_play, 2);
    text_play.start(second);
    assert_eq!(done(&mut text_play).outcome, Outcome::Completed);
    let mut ask_play = play("live-interrupt-during-permission");
    ask_play.start(turn(1));
    let ask = asked(&mut ask_play).ask;
    ask_play
        .until_host("session/cancel")
        .command(Command::Interrupt(TurnRef { session: TURN.session, turn: 1 }));
    assert_eq!(done(&mut ask_play).outcome, Outcome::Interrupted);
    assert!(ask_play.actions.contains(&Action::AskWithdrawn(ask)));
    text_play.finish().check();
    ask_play.finish().check();
}

#[test]
fn a_history_after_the_response_to_loading_is_ignored() {
    let mut play = play("live-load-session");
    play.start(StartTurn {
        native_id: Some("80e2b6d7-5305-43f5-b01a-d4a58344d5ff".to_owned()),
        ..turn(1)
    });
    play.until_agent("Second turn in the same session.");
    assert!(play.id_of("session/prompt").is_none(), "the history is still being sent");
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    let said = text(&play.actions, 1);
    assert!(said.starts_with("History: "), "{said}");
    assert!(
        !events(&play.actions).any(|event| matches!(event, EventKind::Thinking(_))),
        "this text is part of the history"
    );
    play.finish().check();
}

/// Returns the agent's id of the session in a line that the backend wrote.
fn session_of(play: &Play<Backend>, method: &str) -> String {
    play.written_with(method)[0]["params"]["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_is_loaded_by_an_id_that_prevents_overwriting_it() {
    let mut play = play("live-load-session-same-minute");
    let id = "7349bfdc-b330-47f3-9f02-18732e341dd6";
    play.start(StartTurn { native_id: Some(id.to_owned()), ..turn(1) })
        .until_agent("available_commands_update")
        .elapse(600.0);
    for method in ["session/load", "session/prompt"] {
        assert_eq!(
            session_of(&play, method),
            format!(" {id}"),
            "with the space, the file has another name but the session is the same"
        );
    }
    assert!(
        matches!(&play.actions.iter().find(|action| matches!(action, Action::SessionReady(_))),
        Some(Action::SessionReady(ready)) if ready.native_id == id)
    );
    let said = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "You said 42."}});
    let params = json!({"sessionId": format!(" {id}"), "update": said});
    play.say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string());
    assert_eq!(text(&play.actions, 1), "You said 42.");
    play.command(Command::Interrupt(TurnRef { session: 1, turn: 1 }));
    assert_eq!(session_of(&play, "session/cancel"), format!(" {id}"));
}

#[test]
fn a_new_session_has_its_own_id() {
    let mut play = play("live-init-prompt-streaming");
    play.start(turn(1));
    done(&mut play);
    assert_eq!(session_of(&play, "session/prompt"), next(&play, 2).native_id.unwrap());
}

#[test]
fn a_missing_session_is_unknown() {
    let mut play = play("live-load-session-same-minute-fails");
    play.start(StartTurn {
        native_id: Some("061e4855-e390-4630-a84b-835723d20a54".to_owned()),
        ..turn(1)
    });
    let Outcome::Failed(failure) = done(&mut play).outcome else { panic!("no failure") };
    assert_eq!(failure.kind, FailureKind::SessionUnknown);
    assert!(failure.message.contains("Invalid session identifier"));
}

#[test]
fn an_error_of_the_model_fails_only_its_turn() {
    let mut play = play("live-error-400");
    play.start(turn(1));
    let Outcome::Failed(failure) = done(&mut play).outcome else { panic!("no failure") };
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::BadRequest, "prompt is bad")
    );
    let second = next(&play, 2);
    play.start(second);
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    play.finish().check();
}

#[test]
fn levels_become_modes_and_reports_of_them_are_not_text() {
    let mut play = play("live-modes-models-config");
    let mut start = turn(1);
    start.settings.safety = Safety::Edit;
    start.settings.model = Some("gemini-3.5-flash-lite".to_owned());
    play.start(start).finish();
    assert_eq!(play.written_with("session/set_mode")[0]["params"]["modeId"], "autoEdit");
    assert_eq!(
        play.written_with("session/set_model")[0]["params"]["modelId"],
        "gemini-3.5-flash-lite"
    );
    assert_eq!(text(&play.actions, 1), "");
}

#[test]
fn a_repeated_answer_is_shown_once() {
    let mut play = play("live-init-prompt-streaming");
    play.start(turn(1)).until_host("session/prompt").cut();
    let session = next(&play, 2).native_id.unwrap();
    let say = |play: &mut Play<Backend>, text: &str| {
        let update = format!(
            r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
        );
        play.say(&format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#));
    };
    for text in ["Half an answer ", "and more. "] {
        say(&mut play, text);
        play.elapse(50.0);
    }
    play.elapse(1100.0);
    for text in ["Half an answer ", "and more. ", "The end."] {
        say(&mut play, text);
        play.elapse(50.0);
    }
    let id = play.id_of("session/prompt").unwrap();
    play.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#));
    assert_eq!(play.done()[0].text.as_deref(), Some("Half an answer and more. The end."));
    assert!(events(&play.actions).any(
        |event| matches!(event, EventKind::Text(text) if text.replace && text.text.is_empty())
    ));
}

#[test]
fn images_are_sent_as_blobs() {
    let mut play = play("live-image-prompt");
    let image = Attachment {
        blob: 3,
        name: "a.png".into(),
        media_type: "image/png".into(),
        size: 9,
        path: "/srv/a.png".into(),
    };
    let mut start = turn(1);
    start.parts.push(Part::Image(image));
    play.start(start);
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    assert_eq!(
        play.written_with("session/prompt")[0]["params"]["prompt"][1]["data"],
        "<base64 of 3>"
    );
}

#[test]
fn two_sessions_in_one_process_do_not_mix() {
    let mut play = play("live-two-sessions-one-process");
    play.start(turn(1)).start(StartTurn { session: 2, ..turn(2) }).finish();
    let (one, two) = (text(&play.actions, 1), text(&play.actions, 2));
    assert!(one.ends_with("A done") && two.ends_with("B done"), "{one} | {two}");
    assert_eq!(play.done().len(), 2);
    play.check();
}

#[test]
fn a_health_query_starts_the_agent_or_reports_why_it_cannot() {
    let mut healthy = play("live-init-prompt-streaming");
    healthy.command(Command::Query(Query { query: 1, session: None, kind: QueryKind::Health }));
    let Action::QueryAnswer(told) =
        healthy.until(|action| matches!(action, Action::QueryAnswer(_)))
    else {
        panic!()
    };
    assert_eq!(told.answer, QueryResult::Health("Gemini CLI 0.61.0 answers".to_owned()));
    let mut play = Play::<Backend>::of("", json_rpc);
    let stderr_tail = "YOLO mode is enabled. All tool calls will be automatically approved.\nInvalid auth method selected.".to_owned();
    play.start(turn(1)).command(Command::Query(Query {
        query: 1,
        session: None,
        kind: QueryKind::Health,
    }));
    play.input(Input::Exited(Exited { proc: 1, how: Exit::Code(41), stderr_tail }));
    let Outcome::Failed(failure) = play.outcomes()[0] else { panic!("{:?}", play.outcomes()) };
    let told = play.actions.iter().find_map(|action| {
        if let Action::QueryAnswer(told) = action { Some(&told.answer) } else { None }
    });
    assert_eq!(told, Some(&QueryResult::Failed(failure.clone())));
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Authentication, "Invalid auth method selected.")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn disturbed_output_meets_the_guarantees(
        name in prop::sample::select(vec!["live-init-prompt-streaming", "live-permission-reject-once", "live-load-session", "live-error-400"]),
        changes in vec(any::<Change>(), 0..12),
    ) {
        let mut play = play(name);
        let native_id = (name == "live-load-session").then(|| "80e2b6d7-5305-43f5-b01a-d4a58344d5ff".to_owned());
        play.start(StartTurn { native_id, ..turn(1) }).finish();
        let inputs: Vec<Input> = play.inputs.into_iter().map(|input| input.input).collect();
        survive::<Backend>(disturbed(&inputs, &changes));
    }
}
