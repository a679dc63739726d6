//! Replays recorded dialogues with real agents.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use acp::Backend;
use aetheel_backend_sdk::dialogue::{Play, json_rpc};
use aetheel_backend_sdk::fixture::{
    events, is_done, thoughts, tool_ends, tool_starts, unrecognised,
};
use aetheel_backend_sdk::wit::{
    Action, Command, EventKind, Exit, FailureKind, Outcome, Part, PlanStatus, QueryKind,
    QueryResult, Steer, SteerOutcome, ToolStatus, TurnRef,
};
use support::{SESSION, answer, asked, done, failure, next, play, query, text, turn, with_modes};

#[test]
fn a_conversation_of_two_turns_reports_answers_and_usage() {
    let mut play = play("claude-init-prompt-streaming");
    play.start(turn(1));
    let first = done(&mut play);
    assert_eq!(first.outcome, Outcome::Completed);
    assert_eq!(first.text.as_deref(), Some("Hello there from the mock model."));
    let usage = first.usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.output, usage.cached, usage.context_used, usage.context_size),
        (100, 20, 10, Some(130), Some(200_000))
    );
    assert!((usage.cost_usd.unwrap() - 0.000_603).abs() < 1e-9);
    assert_eq!(thoughts(&play.actions), ["Let me think about it."]);
    let ready = play
        .actions
        .iter()
        .find_map(
            |action| if let Action::SessionReady(ready) = action { Some(ready) } else { None },
        )
        .unwrap();
    assert_eq!(
        (ready.native_id.as_str(), ready.model.as_deref()),
        ("68bfe30c-a51e-49e7-87f3-68dc8719301b", Some("claude-sonnet-4-5"))
    );

    let second = next(&play, 2);
    play.start(second);
    let second = done(&mut play);
    assert_eq!(text(&play.actions, 2), "Second turn in the same session.");
    assert!(
        (second.usage.clone().unwrap().cost_usd.unwrap() - 0.000_603).abs() < 1e-9,
        "the agent reports the cost of the whole session"
    );
    assert_eq!(play.written_with("session/new").len(), 1, "the second turn uses the open session");
    play.finish().check();
}

#[test]
fn initialize_is_sent_with_the_start_and_offers_neither_files_nor_terminals() {
    let mut play = play("claude-init-prompt-streaming");
    play.start(turn(1)).finish();
    let Action::Spawn(spawn) = &play.actions[0] else { panic!("{:?}", play.actions[0]) };
    assert!(spawn.keep_open && !spawn.listens);
    assert_eq!(
        (spawn.session, spawn.turn, spawn.program.as_str()),
        (Some(SESSION), Some(1), "acp-agent")
    );
    let hello = &play.written_with("\"initialize\"")[0]["params"];
    assert_eq!(hello["protocolVersion"], 1);
    assert_eq!(
        hello["clientCapabilities"],
        serde_json::json!({
            "fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false,
            "elicitation": {"form": {}, "url": {}},
        })
    );
}

#[test]
fn thinking_tokens_are_counted_once_even_if_they_are_part_of_the_output() {
    for (name, modes) in [
        ("codex-init-prompt-streaming", r#"{"default":"agent"}"#),
        ("opencode-permission-allow-once", "{}"),
    ] {
        let mut play = play(name);
        play.start(with_modes(turn(1), modes));
        if name.starts_with("opencode") {
            let ask = asked(&mut play);
            answer(&mut play, ask.ask, aetheel_backend_sdk::wit::Decision::AllowOnce);
            let ask = asked(&mut play);
            answer(&mut play, ask.ask, aetheel_backend_sdk::wit::Decision::AllowOnce);
        }
        let usage = done(&mut play).usage.clone().unwrap();
        assert_eq!(usage.output, 20, "{name}");
        assert_eq!((usage.input, usage.cached, usage.reasoning), (90, 10, 5), "{name}");
    }
}

#[test]
fn a_tool_use_is_reported_with_start_end_and_diffs() {
    let mut play = play("claude-write-edit");
    play.start(turn(1));
    let ask = asked(&mut play);
    answer(&mut play, ask.ask, aetheel_backend_sdk::wit::Decision::AllowOnce);
    assert_eq!(done(&mut play).text.as_deref(), Some("Written."));
    let last = *tool_starts(&play.actions).last().unwrap();
    assert_eq!(
        (last.kind.as_str(), last.native_name.as_str(), last.title.as_str()),
        ("file_write", "Write", "Write a.txt")
    );
    assert_eq!(last.target.as_deref(), Some("/srv/project/a.txt"));
    let end = tool_ends(&play.actions)[0];
    assert_eq!((end.status, end.diffs.len()), (ToolStatus::Ok, 1));
    assert_eq!(end.diffs[0].new_text.as_deref(), Some("one\ntwo"));
    play.finish().check();
}

#[test]
fn plans_are_reported_completely() {
    let mut play = play("claude-plan-todo");
    play.start(turn(1)).finish();
    let plan = events(&play.actions).find_map(|event| {
        if let EventKind::Plan(plan) = event { Some(plan.clone()) } else { None }
    });
    let plan = plan.unwrap();
    assert_eq!(
        (plan.len(), plan[0].text.as_str(), plan[0].status),
        (1, "one", PlanStatus::Pending)
    );
    play.check();
}

#[test]
fn an_interrupt_during_text_ends_the_turn_and_the_next_one_runs() {
    let mut play = play("claude-interrupt-mid-text");
    play.start(turn(1))
        .until_host("session/cancel")
        .command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 }));
    let first = done(&mut play);
    assert_eq!((first.outcome, first.text), (Outcome::Interrupted, None));
    assert_eq!(play.written_with("session/cancel").len(), 1);
    let second = next(&play, 2);
    play.start(second);
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    assert_eq!(text(&play.actions, 2), "Alive after the interrupt.");
    play.finish().check();
}

#[test]
fn an_interrupt_during_a_tool_use_ends_the_turn() {
    for (name, modes) in [
        ("codex-interrupt-mid-tool", r#"{"default":"agent"}"#),
        ("claude-interrupt-mid-tool", "{}"),
    ] {
        let mut play = play(name);
        play.start(with_modes(turn(1), modes))
            .until_host("session/cancel")
            .command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 }));
        assert_eq!(done(&mut play).outcome, Outcome::Interrupted, "{name}");
        play.finish().check();
    }
}

#[test]
fn a_session_that_was_interrupted_in_a_command_is_closed_and_opened_again_for_the_next_prompt() {
    let mut play = play("codex-interrupt-mid-tool");
    play.start(with_modes(turn(1), r#"{"default":"agent"}"#)).until_host("session/cancel");
    assert!(play.written_with("session/close").is_empty());
    play.command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 }));
    assert_eq!(done(&mut play).outcome, Outcome::Interrupted);
    let closed = play.written_with("session/close");
    assert_eq!(closed.len(), 1);
    play.cut();
    let second = next(&play, 2);
    play.start(with_modes(second, r#"{"default":"agent"}"#));
    assert!(play.written_with("session/resume").is_empty(), "the session is not closed yet");
    let id = play.id_of("session/close").unwrap();
    play.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(
        play.written_with("session/resume")[0]["params"]["sessionId"],
        closed[0]["params"]["sessionId"]
    );
}

#[test]
fn a_session_that_was_interrupted_during_text_stays_open() {
    let mut play = play("claude-interrupt-mid-text");
    play.start(turn(1))
        .until_host("session/cancel")
        .command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 }));
    done(&mut play);
    assert!(play.written_with("session/close").is_empty());
}

#[test]
fn an_interrupt_withdraws_an_open_question() {
    let mut play = play("claude-interrupt-during-permission");
    play.start(turn(1));
    let ask = asked(&mut play).ask;
    play.until_host("session/cancel")
        .command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 }));
    assert_eq!(done(&mut play).outcome, Outcome::Interrupted);
    assert!(play.actions.contains(&Action::AskWithdrawn(ask)));
    assert_eq!(play.written_with("outcome")[0]["result"]["outcome"]["outcome"], "cancelled");
    // An answer that crossed the withdrawal changes nothing.
    let before = play.actions.len();
    answer(&mut play, ask, aetheel_backend_sdk::wit::Decision::AllowOnce);
    assert_eq!(play.actions.len(), before);
    play.finish().check();
}

#[test]
fn an_interrupt_during_the_start_ends_the_turn_at_once_and_the_session_serves_the_next_turn() {
    let mut play = play("claude-init-prompt-streaming");
    play.start(turn(1))
        .until_host("session/new")
        .command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 }));
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
    play.start(turn(2));
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    assert_eq!(
        play.written_with("session/new").len(),
        1,
        "the session that was being created is used"
    );
    assert_eq!(text(&play.actions, 2), "Hello there from the mock model.");
}

#[test]
fn errors_of_the_model_fail_the_turn_and_the_next_one_runs() {
    for (name, modes) in [
        ("claude-error-400", "{}"),
        ("droid-error-400", "{}"),
        ("codex-error-400", r#"{"default":"agent"}"#),
    ] {
        let mut play = play(name);
        play.start(with_modes(turn(1), modes));
        let first = done(&mut play);
        let failure = failure(&first.outcome);
        assert_eq!(failure.kind, FailureKind::BadRequest, "{name}");
        assert!(
            failure.message.contains("prompt is bad") && !failure.message.contains('{'),
            "{name}: {}",
            failure.message
        );
        let second = next(&play, 2);
        play.start(with_modes(second, modes));
        assert_eq!(done(&mut play).outcome, Outcome::Completed, "{name}");
        assert_eq!(text(&play.actions, 2), "Alive after an API error.", "{name}");
        play.finish().check();
    }
}

#[test]
fn a_session_is_resumed_without_its_history_if_the_agent_supports_it() {
    let mut play = play("claude-resume-list-fork-close");
    let mut start = turn(1);
    start.native_id = Some("68bfe30c-a51e-49e7-87f3-68dc8719301b".to_owned());
    play.start(start)
        .command(query(1, QueryKind::Sessions))
        .until(|action| matches!(action, Action::QueryAnswer(_)));
    let first = done(&mut play);
    assert_eq!(first.outcome, Outcome::Completed);
    assert!(first.text.unwrap().starts_with("History: "), "the model knows the earlier messages");
    assert_eq!(first.usage.clone().unwrap().cost_usd, None, "the cost of earlier turns is unknown");
    assert!(play.written_with("session/load").is_empty());
    let mut copy = turn(2);
    copy.native_id = Some("68bfe30c-a51e-49e7-87f3-68dc8719301b".to_owned());
    copy.fork = true;
    play.start(copy);
    let ready =
        play.until(|action| matches!(action, Action::SessionReady(ready) if ready.native_id != "68bfe30c-a51e-49e7-87f3-68dc8719301b"));
    assert!(matches!(ready, Action::SessionReady(_)));
    play.until_host("session/close").command(Command::CloseSession(SESSION));
    assert_eq!(play.written_with("session/close").len(), 1);
    let Some(Action::QueryAnswer(listed)) =
        play.actions.iter().find(|action| matches!(action, Action::QueryAnswer(_)))
    else {
        panic!()
    };
    let QueryResult::Sessions(sessions) = &listed.answer else { panic!("{listed:?}") };
    assert_eq!((sessions.len(), sessions[0].cwd.as_deref()), (3, Some("/srv/project")));
}

#[test]
fn a_repeated_history_is_not_part_of_the_turn() {
    // Makes the agent one that can only load sessions with their history.
    let path = format!(
        "{}/../../tests/fixtures/acp/codex-zed-load-session.dialogue",
        env!("CARGO_MANIFEST_DIR")
    );
    let text_of = std::fs::read_to_string(path).unwrap().replace(r#""resume": {}, "#, "");
    let mut play = Play::<Backend>::of(&text_of, json_rpc);
    let mut start = turn(1);
    start.native_id = Some("01a20003-95b8-78a1-b573-70e9a17bf5c7".to_owned());
    play.start(start);
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    assert!(text(&play.actions, 1).starts_with("History: "), "{}", text(&play.actions, 1));
    assert_eq!(play.written_with("session/load").len(), 1);
}

#[test]
fn two_sessions_in_one_process_do_not_mix() {
    let mut play = play("claude-two-sessions-one-process");
    let (one, mut two) = (turn(1), turn(2));
    two.session = 2;
    // The second prompt arrives while the agent starts, so that it waits in the backend.
    play.start(one).start(two).finish();
    assert_eq!(play.done().len(), 2);
    let of = |turn| text(&play.actions, turn);
    assert!(of(1).ends_with("A done") && !of(1).contains('B'), "{}", of(1));
    assert!(of(2).ends_with("B done") && !of(2).contains('A'), "{}", of(2));
    assert_eq!(play.written_with("\"initialize\"").len(), 1);
    play.check();
}

#[test]
fn another_prompt_steers_an_agent_that_announced_support() {
    let mut play = play("claude-steer-mid-turn");
    play.start(turn(1)).until_agent("tool_call\"");
    play.until_host("STEER").command(Command::Steer(steer("also say banana")));
    let outcome = done(&mut play);
    assert_eq!(play.written_with("session/prompt").len(), 2);
    assert!(play.actions.iter().any(|action| matches!(action, Action::Steered(steered) if steered.outcome == SteerOutcome::Injected)));
    assert_eq!(
        (outcome.outcome, outcome.text.as_deref()),
        (Outcome::Completed, Some("plan finished")),
        "the last answer ends the turn"
    );
    assert_eq!(outcome.usage.clone().unwrap().input, 300);
    play.finish();
    assert_eq!(play.done().len(), 1);
    play.check();
}

#[test]
fn the_steering_method_is_used_if_the_agent_offers_it() {
    let mut play = play("codex-steer-ext-method");
    play.start(with_modes(turn(1), r#"{"default":"agent"}"#));
    play.until_host("_session/steering").command(Command::Steer(steer("also say banana")));
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    assert_eq!(play.written_with("_session/steering").len(), 1);
    assert_eq!(play.written_with("session/prompt").len(), 1);
    assert!(play.actions.iter().any(|action| matches!(action, Action::Steered(steered) if steered.outcome == SteerOutcome::Injected)));
    let outputs: Vec<_> = events(&play.actions)
        .filter_map(
            |event| if let EventKind::ToolOutput(out) = event { Some(&out.text) } else { None },
        )
        .collect();
    assert_eq!(outputs, ["one\n", "two\n"], "output is streamed while the tool runs");
    assert_eq!(tool_ends(&play.actions)[0].exit_code, Some(0));
    let said: String = text(&play.actions, 1);
    assert!(said.ends_with("plan finished"), "{said}");
    play.finish().check();
}

#[test]
fn a_turn_of_an_agent_without_steering_gets_no_messages() {
    let mut play = play("droid-init-prompt-streaming");
    play.start(turn(1)).until_agent("agent_thought_chunk");
    play.command(Command::Steer(steer("and this")));
    assert!(
        matches!(play.actions.last(), Some(Action::Steered(steered)) if steered.outcome == SteerOutcome::NotNow)
    );
    assert_eq!(play.written_with("session/prompt").len(), 1);
}

#[test]
fn the_turn_of_a_killed_agent_is_lost_and_names_the_signal() {
    let mut play = play("claude-interrupt-mid-text");
    play.start(turn(1)).until_agent("chunk1").say("no json at all").exit(Exit::Signal(9));
    let done = play.done();
    assert!(
        matches!(&done[0].outcome, Outcome::Lost(failure) if failure.kind == FailureKind::Crashed && failure.message.contains("signal 9"))
    );
    assert!(!unrecognised(&play.actions).is_empty());
}

#[test]
fn images_are_sent_as_blobs_that_the_backend_never_reads() {
    let mut play = play("claude-image-prompt");
    let mut start = turn(1);
    let image = aetheel_backend_sdk::wit::Attachment {
        blob: 7,
        name: "a.png".into(),
        media_type: "image/png".into(),
        size: 70,
        path: "/srv/files/a.png".into(),
    };
    start.parts =
        vec![Part::Text("what is it?".into()), Part::Image(image.clone()), Part::File(image)];
    play.start(start);
    assert_eq!(done(&mut play).outcome, Outcome::Completed);
    let prompt = &play.written_with("session/prompt")[0]["params"]["prompt"];
    assert_eq!(
        prompt[1],
        serde_json::json!({"type": "image", "mimeType": "image/png", "data": "<base64 of 7>"})
    );
    assert_eq!(
        prompt[2]["text"],
        "[Attached file: a.png (image/png, 70 bytes) at /srv/files/a.png]"
    );
}

#[test]
fn model_and_effort_are_set_before_the_prompt_and_an_unsupported_effort_is_ignored() {
    let mut play = play("opencode-modes-models-config");
    let mut start = turn(1);
    start.settings.model = Some("opencode/big-pickle".to_owned());
    start.settings.effort = Some("medium".to_owned());
    play.start(start).finish();
    let set: Vec<_> = play
        .written_with("session/set_config_option")
        .iter()
        .map(|line| line["params"]["configId"].clone())
        .collect();
    assert_eq!(set, ["model", "effort"]);
    let prompt = play.written.iter().position(|line| line.contains("session/prompt")).unwrap();
    assert_eq!(prompt, play.written.len() - 1, "the prompt comes last");
    assert!(play.actions.iter().any(|action| matches!(action, Action::Diagnostic(said) if said.text.contains("does not take effort"))));
    play.check();
}

#[test]
fn shutdown_closes_stdin_and_then_terminates_an_agent_that_does_not_exit() {
    let mut play = play("codex-zed-permission-reject-once");
    play.start(turn(1));
    let ask = asked(&mut play).ask;
    answer(&mut play, ask, aetheel_backend_sdk::wit::Decision::DenyAndStop);
    play.until(is_done);
    play.cut().command(Command::Shutdown);
    assert!(matches!(
        play.actions[play.actions.len() - 2..],
        [Action::CloseStdin(1), Action::SetTimer(_)]
    ));
    play.elapse(10_000.0);
    assert!(matches!(play.actions.last(), Some(Action::Stop(_))));
    play.exit(Exit::Signal(15));
    assert_eq!(play.done().len(), 1);
}

fn steer(text: &str) -> Steer {
    Steer {
        session: SESSION,
        turn: 1,
        message: 1,
        parts: vec![Part::Text(text.to_owned())],
        fresh_id: String::new(),
    }
}
