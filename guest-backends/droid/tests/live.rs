//! Recorded dialogues with a long-lived Droid 0.225.2: turns, sessions, and settings. Questions are
//! in `asks.rs`.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod play;

use aetheel_backend_sdk::fixture::start;
use aetheel_backend_sdk::wit::{
    Action, Attachment, Command, Compaction, EventKind, Exit, FailureKind, Input, Mode, Outcome,
    Part, Query, QueryKind, QueryResult, Safety, SpawnFailed, StartTurn, Steer, SteerOutcome,
    ToolStatus, TurnRef,
};

use play::{Live, events, live, notices, play, ready, shown, spawns, steered, tool_ends, turn};

const INTERRUPT: Command = Command::Interrupt(TurnRef { session: 1, turn: 1 });

fn done_text(play: &Live, at: usize) -> String {
    play.done()[at].text.clone().unwrap_or_default()
}

fn failed(outcome: &Outcome) -> FailureKind {
    match outcome {
        Outcome::Failed(failure) => failure.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_turn_opens_a_session_that_the_second_turn_uses() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until(|action| matches!(action, Action::TurnDone(_)));
    play.start(turn(2, "Again")).finish().check();
    assert!(play.check_moving() > 0, "another instance continues with the process");
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
    assert_eq!(
        (done_text(&play, 0).as_str(), done_text(&play, 1).as_str()),
        ("Hello there from the mock model.", "Second turn in the same process.")
    );
    let usage: Vec<_> = play
        .done()
        .iter()
        .map(|done| done.usage.clone().unwrap())
        .map(|usage| (usage.input, usage.cached, usage.output))
        .collect();
    assert_eq!(
        usage,
        [(200, 20, 40), (100, 10, 20)],
        "the usage is counted separately for each turn"
    );
    assert_eq!(spawns(&play.actions).len(), 1);
    // Each turn reports the id, and the host saves the last one.
    assert!(ready(&play.actions).iter().all(|id| id == "d1237233-3c08-439c-b93e-a882b205597b"));
    assert_eq!(ready(&play.actions).len(), 2);
    let thinking: String = events(&play.actions, 1)
        .iter()
        .filter_map(|kind| {
            if let EventKind::Thinking(text) = kind { Some(text.text.as_str()) } else { None }
        })
        .collect();
    assert_eq!(thinking, "Let me think about it.");
    assert_eq!(
        shown(&play.actions, 1),
        done_text(&play, 0),
        "the pieces are the answer, and complete blocks add nothing"
    );
    assert!(
        events(&play.actions, 1)
            .iter()
            .any(|kind| matches!(kind, EventKind::Title(title) if title == "Mock title"))
    );
}

#[test]
fn nothing_recorded_is_unrecognised() {
    for name in play::names() {
        let mut play = play(&name);
        let mut start = live("recorded");
        if name.starts_with("live-resume") || name == "live-restart-2" {
            start.native_id = Some("d1237233-3c08-439c-b93e-a882b205597b".to_owned());
        }
        play.start(start).finish();
        let unknown: Vec<_> = events(&play.actions, 1)
            .into_iter()
            .filter(|kind| matches!(kind, EventKind::Unrecognised(_)))
            .collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

#[test]
fn a_session_is_resumed_without_repeating_its_history() {
    let mut play = play("live-resume");
    let id = "d1237233-3c08-439c-b93e-a882b205597b";
    play.start(StartTurn { native_id: Some(id.to_owned()), ..live("Recall") }).finish().check();
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(ready(&play.actions), [id]);
    assert!(shown(&play.actions, 1).starts_with("History: "));
    assert_eq!(play.written_with("initialize_session").len(), 0);
}

#[test]
fn an_unknown_session_fails_the_turn_and_the_next_turn_opens_a_new_session() {
    let mut play = play("live-resume-unknown");
    play.start(StartTurn {
        native_id: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        ..live("Recall")
    });
    play.until(|action| matches!(action, Action::TurnDone(_)));
    assert_eq!(failed(play.outcomes()[0]), FailureKind::SessionUnknown);
    play.check();
    play.start(turn(2, "Then anew"));
    assert_eq!(play.written_with("initialize_session").len(), 1);
}

#[test]
fn a_fork_creates_a_copy_and_then_loads_it() {
    let mut play = play("live-restart-2");
    play.start(StartTurn {
        native_id: Some("the-original".to_owned()),
        fork: true,
        ..live("Go on")
    });
    play.until_agent(r#""newSessionId""#);
    let loads: Vec<_> = play
        .written_with("load_session")
        .iter()
        .map(|line| line["params"]["sessionId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(loads.len(), 2);
    assert_eq!(loads[0], "the-original");
    assert!(play.written_with("fork_session").len() == 1 && loads[1] != loads[0], "{loads:?}");
}

#[test]
fn a_prompt_waits_while_droid_starts() {
    let mut play = play("live-hello");
    play.start(live("Hello")).command(INTERRUPT);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted], "the prompt was not sent yet");
    play.start(turn(2, "Instead"))
        .until(|action| matches!(action, Action::TurnDone(done) if done.turn == 2));
    let prompts = play.written_with("add_user_message");
    assert_eq!(prompts.len(), 1);
    assert_eq!(prompts[0]["params"]["text"], "Instead");
    assert_eq!(spawns(&play.actions).len(), 1);
}

#[test]
fn an_interrupt_during_text_ends_the_turn_and_the_process_serves_the_next_turn() {
    let mut play = play("live-interrupt-text");
    play.start(live("Talk"))
        .until_host("interrupt_session")
        .command(INTERRUPT)
        .until(|action| matches!(action, Action::TurnDone(_)));
    assert_eq!(shown(&play.actions, 1), "chunk0 chunk1 chunk2 ");
    play.start(turn(2, "Alive?")).finish().check();
    assert!(play.check_moving() > 0, "another instance continues with the process");
    assert_eq!(play.outcomes(), [&Outcome::Interrupted, &Outcome::Completed]);
}

#[test]
fn an_interrupted_tool_use_ends_once_although_its_result_is_repeated() {
    let mut play = play("live-interrupt-tool");
    play.start(live("Sleep")).until_host("interrupt_session").command(INTERRUPT).finish().check();
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
    assert_eq!(tool_ends(&play.actions, 1), [ToolStatus::Cancelled]);
}

#[test]
fn an_interrupt_right_after_the_prompt_ends_the_turn() {
    let mut play = play("live-interrupt-early");
    play.start(live("Talk")).until_host("add_user_message").command(INTERRUPT).finish().check();
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
}

#[test]
fn model_errors_fail_the_turn_and_the_process_serves_the_next_turn() {
    let mut play = play("live-error-400");
    play.start(live("Bad")).until(|action| matches!(action, Action::TurnDone(_)));
    play.start(turn(2, "Alive?")).finish().check();
    assert!(play.check_moving() > 0, "another instance continues with the process");
    assert_eq!(failed(play.outcomes()[0]), FailureKind::BadRequest);
    assert!(
        matches!(play.outcomes()[0], Outcome::Failed(failure) if failure.message == "prompt is bad (400)")
    );
    assert_eq!(shown(&play.actions, 1), "", "Droid's error text is not part of the answer");
    assert_eq!(play.outcomes()[1], &Outcome::Completed);
    let mut play = self::play("live-error-401");
    play.start(live("Bad")).finish().check();
    assert_eq!(failed(play.outcomes()[0]), FailureKind::Authentication);
}

#[test]
fn every_reason_for_the_end_of_a_turn_has_an_outcome() {
    for (reason, error, kind) in [
        (
            "model_rate_limited",
            "429 {\"error\":{\"message\":\"slow down\"}}",
            FailureKind::RateLimited,
        ),
        ("model_usage_exhausted", "no credits", FailureKind::Quota),
        (
            "model_provider_unavailable",
            "500 {\"error\":{\"message\":\"oops\"}}",
            FailureKind::Overloaded,
        ),
        ("model_provider_unreachable", "Connection error.", FailureKind::Network),
        (
            "model_request_rejected",
            "400 {\"error\":{\"message\":\"prompt is too long\"}}",
            FailureKind::ContextFull,
        ),
        (
            "model_request_rejected",
            "404 {\"error\":{\"message\":\"no such model\"}}",
            FailureKind::ModelNotFound,
        ),
        ("prompt_rejected", "", FailureKind::Refused),
        ("permission_rejected", "", FailureKind::Refused),
        ("no_approver_available", "", FailureKind::Refused),
        ("error", "401 {\"error\":{\"message\":\"who are you\"}}", FailureKind::Authentication),
        ("completion_persistence_failed", "", FailureKind::Other),
        ("sudden_hunger", "", FailureKind::Other),
    ] {
        let mut play = play("live-hello");
        play.start(live("Hello")).until_host("add_user_message").cut();
        if !error.is_empty() {
            play.say(&play::note(&serde_json::json!({"type": "error", "message": error})));
        }
        play.say(&play::note(
            &serde_json::json!({"type": "agent_turn_completed", "reason": reason}),
        ));
        assert_eq!(failed(play.outcomes()[0]), kind, "{reason}");
        let unknown =
            events(&play.actions, 1).iter().any(|kind| matches!(kind, EventKind::Unrecognised(_)));
        assert_eq!(unknown, reason == "sudden_hunger");
    }
}

#[test]
fn retries_are_reported_and_retracted_text_is_withdrawn() {
    let mut play = play("live-retry");
    play.start(live("Go")).finish().check();
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    let retries: Vec<_> = events(&play.actions, 1)
        .into_iter()
        .filter_map(|kind| {
            if let EventKind::Retry(failure) = kind {
                Some((failure.kind, failure.message.as_str()))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        retries,
        [
            (FailureKind::Overloaded, "overloaded (attempt 1)"),
            (FailureKind::Overloaded, "overloaded (attempt 2)")
        ]
    );
    let mut play = self::play("live-hello");
    play.start(live("Hello")).until_host("add_user_message").cut();
    for (kind, text) in [("assistant_text_delta", "Wro"), ("assistant_text_delta", "ng")] {
        play.say(&play::note(&serde_json::json!({"type": kind, "messageId": "m", "blockIndex": 0, "textDelta": text})));
    }
    play.say(&play::note(&serde_json::json!({"type": "tool_call", "toolUse": {"id": "t", "name": "Execute", "input": {}}})));
    play.say(&play::note(
        &serde_json::json!({"type": "assistant_message_retracted", "messageId": "m"}),
    ));
    play.say(&play::note(&serde_json::json!({"type": "assistant_text_delta", "messageId": "m", "blockIndex": 0, "textDelta": "Right"})));
    assert_eq!(shown(&play.actions, 1), "Right");
    assert_eq!(tool_ends(&play.actions, 1), [ToolStatus::Cancelled]);
}

#[test]
fn replies_to_reminders_of_open_todos_do_not_replace_the_answer() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until_host("add_user_message").cut();
    let says = |id: &str, text: &str| {
        let message = serde_json::json!({"id": id, "role": "assistant", "content": [{"type": "text", "text": text}]});
        play::note(&serde_json::json!({"type": "create_message", "message": message}))
    };
    let uses = serde_json::json!({"id": "m1", "role": "assistant", "content": [{"type": "text", "text": "First I plan."},
        {"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": "1. [pending] one"}}]});
    play.say(&play::note(&serde_json::json!({"type": "create_message", "message": uses})));
    play.say(&says("m2", "The answer is 42."));
    let reminder = serde_json::json!({"id": "u2", "role": "user", "visibility": "llm_only", "content": [{"type": "text", "text": "Update your plan."}]});
    play.say(&play::note(&serde_json::json!({"type": "create_message", "message": reminder})));
    let delta = serde_json::json!({"type": "assistant_text_delta", "messageId": "m3", "blockIndex": 0, "textDelta": "Plan is "});
    play.say(&play::note(&delta));
    play.say(&says("m3", "Plan is up-to-date."));
    play.say(&play::note(
        &serde_json::json!({"type": "agent_turn_completed", "reason": "completed"}),
    ));
    assert_eq!(play.done()[0].text.as_deref(), Some("The answer is 42."));
    assert_eq!(shown(&play.actions, 1), "First I plan.The answer is 42.", "the reply is withdrawn");
}

#[test]
fn images_are_sent_as_blobs_that_the_host_inserts() {
    let mut play = play("live-image");
    let image = Attachment {
        blob: 7,
        name: "a.png".to_owned(),
        media_type: "image/png".to_owned(),
        size: 70,
        path: "/srv/in/a.png".to_owned(),
    };
    let file = Attachment {
        media_type: "image/tiff".to_owned(),
        blob: 8,
        name: "b.tiff".to_owned(),
        ..image.clone()
    };
    let parts = vec![
        Part::Text("What \u{1}is this?".to_owned()),
        Part::Image(image.clone()),
        Part::Image(file),
        Part::Image(image),
    ];
    play.start(StartTurn { parts, ..live("") }).finish().check();
    let prompt = play.written_with("add_user_message");
    let data =
        serde_json::json!({"type": "base64", "mediaType": "image/png", "data": "<base64 of 7>"});
    assert_eq!(prompt[0]["params"]["images"], serde_json::json!([data, data]));
    assert_eq!(
        prompt[0]["params"]["text"],
        "What \u{1}is this?\n\n[Attached file: b.tiff (image/tiff, 70 bytes) at /srv/in/a.png]"
    );
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
}

#[test]
fn changed_settings_are_applied_before_the_prompt() {
    let mut play = play("live-settings");
    play.start(live("a")).until(|action| matches!(action, Action::TurnDone(_)));
    let mut second = turn(2, "b");
    second.settings.model = Some("custom:Two-1".to_owned());
    second.settings.effort = Some("off".to_owned());
    second.settings.mode = Mode::Plan;
    play.start(second).until(|action| matches!(action, Action::TurnDone(done) if done.turn == 2));
    play.start(turn(3, "c")).finish().check();
    assert!(play.check_moving() > 0, "another instance continues with the process");
    assert_eq!(play.outcomes(), [&Outcome::Completed; 3]);
    let updates: Vec<_> = play
        .written_with("update_session_settings")
        .iter()
        .map(|line| line["params"].clone())
        .collect();
    let back = serde_json::json!({"modelId": "custom:Mock-0", "reasoningEffort": "high", "interactionMode": "auto"});
    let there = serde_json::json!({"modelId": "custom:Two-1", "reasoningEffort": "off", "interactionMode": "spec", "autonomyLevel": "off"});
    assert_eq!(
        updates,
        [there, back],
        "the selected settings, and then the session's original ones"
    );
    let order: Vec<_> = play
        .written
        .iter()
        .filter(|line| line.contains("update_session") || line.contains("add_user"))
        .collect();
    assert!(order[1].contains("update_session") && order[2].contains("add_user"), "{order:?}");
    assert!(done_text(&play, 1).contains("model=mock-two"), "{}", done_text(&play, 1));
    assert_eq!(spawns(&play.actions).len(), 1);
}

#[test]
fn a_lower_safety_level_or_a_new_system_prompt_restarts_droid_and_resumes_the_session() {
    let mut play = play("live-restart");
    let mut first = live("one");
    first.settings.safety = Safety::Danger;
    play.start(first).until(|action| matches!(action, Action::TurnDone(_)));
    let mut second = turn(2, "two");
    second.settings.system_prompt = Some("be kind".to_owned());
    play.start(second);
    assert_eq!(spawns(&play.actions).len(), 1, "the old process exits first");
    assert!(
        play.written_with("interrupt_session").len() == 1
            && play.written_with("close_session").len() == 1
    );
    assert!(matches!(
        play.actions.iter().rev().find(|action| !matches!(action, Action::SetTimer(_))),
        Some(Action::CloseStdin(1))
    ));
    play.finish().check();
    let spawns = spawns(&play.actions);
    assert_eq!(spawns.len(), 2);
    assert!(
        spawns[0].contains(&"--skip-permissions-unsafe".to_owned())
            && !spawns[1].contains(&"--skip-permissions-unsafe".to_owned())
    );
    assert!(spawns[1].contains(&"--append-system-prompt-file".to_owned()));
    assert_eq!(
        play.written_with("load_session")[0]["params"]["sessionId"],
        ready(&play.actions)[0]
    );
    assert_eq!(play.outcomes().len(), 1, "the second turn continues");
}

#[test]
fn an_unknown_model_fails_the_turn() {
    let mut play = play("live-model-unknown");
    let mut start = live("Hello");
    start.settings.model = Some("nope".to_owned());
    play.start(start).finish().check();
    assert_eq!(failed(play.outcomes()[0]), FailureKind::ModelNotFound);
    assert_eq!(
        play.written_with("add_user_message").len(),
        0,
        "another model does not get the prompt"
    );
}

#[test]
fn allowed_tools_are_restricted_and_changed() {
    let mut play = play("live-hello");
    let mut first = live("Hello");
    first.settings.allowed_tools =
        vec!["Read".to_owned(), "Grep".to_owned(), "Execute(git:*)".to_owned()];
    play.start(first).until(|action| matches!(action, Action::TurnDone(_)));
    assert_eq!(
        play.written_with("initialize_session")[0]["params"]["restrictToolIds"],
        serde_json::json!(["Read", "Grep"])
    );
    let mut second = turn(2, "Again");
    second.settings.mode = Mode::Plan;
    second.settings.allowed_tools = vec!["Read".to_owned()];
    play.start(second);
    let update = play.written_with("update_session_settings");
    assert_eq!(
        update[0]["params"],
        serde_json::json!({"autonomyLevel": "off", "interactionMode": "spec", "restrictToolIds": ["Read", "ExitSpecMode"]})
    );
}

#[test]
fn a_steered_message_is_reported_as_injected_when_the_model_receives_it() {
    let mut play = play("live-steer");
    play.start(live("Work")).until_host("STEER").command(steer(5)).finish().check();
    assert_eq!(steered(&play.actions), [(5, SteerOutcome::Injected)]);
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    let at = |fits: fn(&Action) -> bool| play.actions.iter().position(fits).unwrap();
    assert!(
        at(|action| matches!(action, Action::Steered(_)))
            < at(|action| matches!(action, Action::TurnDone(_)))
    );
}

#[test]
fn a_message_that_is_steered_at_the_end_is_answered_in_the_same_turn() {
    let mut play = play("live-steer-late");
    play.start(live("Talk")).until_host("STEER").command(steer(5));
    play.until(|action| matches!(action, Action::TurnDone(_)));
    assert_eq!(steered(&play.actions), [(5, SteerOutcome::Injected)]);
    play.start(turn(2, "And now?")).finish().check();
    assert!(play.check_moving() > 0, "another instance continues with the process");
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
    assert_eq!(play.done()[0].usage.clone().unwrap().output, 60, "the usage includes both runs");
    assert!(
        shown(&play.actions, 1).contains("slow7")
            && shown(&play.actions, 1).matches("ANSWER").count() == 2
    );
}

#[test]
fn an_interrupt_drops_a_steered_message() {
    let mut play = play("live-steer-interrupt");
    play.start(live("Talk")).until_host("STEER").command(steer(5));
    play.until_host("interrupt_session").command(INTERRUPT).finish().check();
    assert_eq!(steered(&play.actions), [(5, SteerOutcome::Dropped)]);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
}

#[test]
fn messages_that_cannot_be_steered_stay_with_the_host() {
    let mut play = play("live-steer");
    play.start(live("Work")).command(steer(4));
    assert_eq!(steered(&play.actions), [(4, SteerOutcome::NotNow)]);
}

#[test]
fn a_crash_loses_the_turn_and_the_next_process_loads_the_session() {
    let mut play = play("live-interrupt-text");
    play.start(live("Talk")).until_agent("chunk1").cut();
    play.input(Input::Line(aetheel_backend_sdk::wit::Line {
        proc: 1,
        pipe: aetheel_backend_sdk::wit::Pipe::Stderr,
        text: "panic: oh".to_owned(),
        truncated: false,
    }));
    let exited = aetheel_backend_sdk::wit::Exited {
        proc: 1,
        how: Exit::Signal(9),
        stderr_tail: "panic: oh\n".to_owned(),
    };
    play.input(Input::Exited(exited));
    assert!(
        matches!(play.outcomes()[..], [Outcome::Lost(lost)] if lost.kind == FailureKind::Crashed && lost.message == "Droid was ended by signal 9: panic: oh"),
        "{:?}",
        play.outcomes()
    );
    play.start(turn(2, "Still there?"));
    assert_eq!(
        play.written_with("load_session")[0]["params"]["sessionId"],
        ready(&play.actions)[0]
    );
}

#[test]
fn a_missing_program_or_a_failed_start_fails_the_turn() {
    let mut play = play("live-hello");
    play.start(live("Hello"));
    play.input(Input::SpawnFailed(SpawnFailed {
        proc: 1,
        message: "no such file".to_owned(),
        not_found: true,
    }));
    assert_eq!(failed(play.outcomes()[0]), FailureKind::NotFound);
    let mut play = self::play("live-hello");
    play.start(live("Hello")).cut();
    let tail = "Authentication failed. Set FACTORY_API_KEY.".to_owned();
    play.input(Input::Exited(aetheel_backend_sdk::wit::Exited {
        proc: 1,
        how: Exit::Code(1),
        stderr_tail: tail,
    }));
    assert_eq!(failed(play.outcomes()[0]), FailureKind::Authentication);
}

#[test]
fn a_turn_that_ends_during_the_shutdown_is_complete() {
    let mut play = play("live-stdin-closed");
    play.start(live("Talk")).finish().check();
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert!(done_text(&play, 0).ends_with("finished"));
}

#[test]
fn a_late_error_for_an_accepted_prompt_ends_the_turn() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until_host("add_user_message").cut();
    let id = play.id_of("droid.add_user_message").unwrap();
    play.say(&format!(r#"{{"type":"response","id":{id},"result":{{}}}}"#));
    play.say(&format!(r#"{{"type":"response","id":{id},"error":{{"code":-32603,"message":"No active session."}}}}"#));
    assert_eq!(failed(play.outcomes()[0]), FailureKind::Protocol);
    play.say(r#"{"type":"response","id":null,"error":{"code":-32700,"message":"Invalid JSON-RPC message"}}"#);
    assert!(
        matches!(play.actions.last(), Some(Action::Diagnostic(line)) if line.text.contains("Invalid JSON-RPC message"))
    );
}

#[test]
fn a_shutdown_interrupts_and_closes_droid_and_finally_stops_the_process() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until(|action| matches!(action, Action::TurnDone(_)));
    let before = play.actions.len();
    play.cut().command(Command::Shutdown);
    assert_eq!(play.written_with("interrupt_session").len(), 1);
    assert_eq!(play.written_with("close_session").len(), 1);
    assert!(play.actions[before..].contains(&Action::CloseStdin(1)));
    assert!(
        !play.actions.iter().any(|action| matches!(action, Action::Stop(_))),
        "the process can exit by itself"
    );
    play.elapse(2000.0);
    assert!(
        matches!(play.actions.last(), Some(Action::Stop(stop)) if stop.proc == 1),
        "a process that hangs is stopped"
    );
    play.exit(Exit::Signal(9));
    assert_eq!(spawns(&play.actions).len(), 1);
}

#[test]
fn queries_are_answered_by_a_live_droid() {
    let mut play = play("live-queries");
    let query = |query, kind| Command::Query(Query { query, session: Some(1), kind });
    play.command(query(1, QueryKind::Health)).until_agent(r#""models""#);
    play.command(query(2, QueryKind::Compact));
    play.start(live("a")).until(|action| matches!(action, Action::TurnDone(_)));
    play.command(query(3, QueryKind::Compact));
    play.until_agent("newSessionId");
    let compacted = ready(&play.actions).last().unwrap().clone();
    play.start(turn(2, "b")).finish().check();
    assert!(play.check_moving() > 0, "another instance continues with the process");
    play.command(query(4, QueryKind::Sessions));
    let answers: Vec<_> = play
        .actions
        .iter()
        .filter_map(
            |action| if let Action::QueryAnswer(answer) = action { Some(answer) } else { None },
        )
        .collect();
    assert_eq!(answers.iter().map(|answer| answer.query).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(
        matches!(&answers[0].answer, QueryResult::Health(line) if line == "Droid answers; 2 models"),
        "{:?}",
        answers[0]
    );
    for at in [1, 3] {
        assert!(
            matches!(&answers[at].answer, QueryResult::Failed(failure) if failure.kind == FailureKind::Unsupported),
            "{:?}",
            answers[at]
        );
    }
    assert!(matches!(answers[2].answer, QueryResult::Done), "{:?}", answers[2]);
    assert_eq!(play.written_with("load_session")[0]["params"]["sessionId"], compacted);
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
}

#[test]
fn models_are_listed_with_their_efforts_and_queries_can_start_droid() {
    let mut play = play("live-queries");
    play.command(Command::Query(Query { query: 1, session: None, kind: QueryKind::Models }));
    assert_eq!(spawns(&play.actions).len(), 1);
    play.until(|action| matches!(action, Action::QueryAnswer(_)));
    let Some(Action::QueryAnswer(answer)) = play.actions.last() else { panic!() };
    let QueryResult::Models(models) = &answer.answer else { panic!("{answer:?}") };
    assert_eq!(models[0].id, "custom:Mock-0");
    assert!(!models[0].efforts.is_empty());
    let mut dead = self::play("live-queries");
    dead.command(Command::Query(Query { query: 1, session: None, kind: QueryKind::Health })).cut();
    dead.exit(Exit::Code(1));
    assert!(
        matches!(dead.actions.last(), Some(Action::QueryAnswer(answer)) if matches!(answer.answer, QueryResult::Failed(_))),
        "{:?}",
        dead.actions
    );
}

#[test]
fn output_between_turns_is_ignored() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until(|action| matches!(action, Action::TurnDone(_)));
    let before = play.actions.len();
    for kind in
        ["assistant_text_delta", "agent_turn_completed", "tool_call", "something_new", "error"]
    {
        play.say(&play::note(&serde_json::json!({"type": kind, "messageId": "m", "textDelta": "x", "reason": "completed"})));
    }
    play.say("not JSON");
    assert_eq!(play.actions.len(), before);
}

#[test]
fn compaction_and_mcp_sign_in_are_reported() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until_host("add_user_message").cut();
    play.say(&play::note(
        &serde_json::json!({"type": "session_compacted", "summaryId": "s", "removedCount": 3}),
    ));
    play.say(&play::note(&serde_json::json!({"type": "mcp_auth_required", "serverName": "linear", "authUrl": "https://example.com/in"})));
    let expected = ["the MCP server linear wants a sign-in: https://example.com/in"];
    assert_eq!(notices(&play.actions, 1), expected);
    let keys = events(&play.actions, 1).into_iter().filter_map(|kind| match kind {
        EventKind::Notice(notice) => notice.key.as_deref(),
        _ => None,
    });
    assert_eq!(keys.collect::<Vec<_>>(), ["mcp linear"], "a later notice replaces it");
    let compaction = Compaction { done: true, tokens_before: None, tokens_after: None };
    assert!(events(&play.actions, 1).contains(&&EventKind::Compaction(compaction)));
}

#[test]
fn a_concurrent_turn_is_refused_without_side_effects() {
    let mut play = play("live-hello");
    play.start(live("Hello")).start(turn(2, "Too soon"));
    assert_eq!(failed(play.outcomes()[0]), FailureKind::Unsupported);
    play.until(|action| matches!(action, Action::TurnDone(done) if done.turn == 1));
    assert_eq!(play.outcomes()[1], &Outcome::Completed);
}

fn steer(message: u32) -> Command {
    let parts = vec![Part::Text("STEER please also say banana".to_owned())];
    Command::Steer(Steer { session: 1, turn: 1, message, parts, fresh_id: start("").fresh_id })
}
