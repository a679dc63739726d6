//! The end of turns: interrupts, errors, steered messages and server crashes, in recorded dialogues
//! with `opencode serve` 1.18.33.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod play;

use aetheel_backend_sdk::wit::{
    Action, Command, Compaction, EventKind, Exit, Exited, FailureKind, Input, Line, Outcome, Part,
    Pipe, QueryResult, SpawnFailed, Steer, SteerOutcome, Steered, ToolStatus, TurnDone,
};
use play::Play;
use play::said::*;
use serde_json::json;

#[test]
fn an_interrupt_ends_the_turn_during_text_tools_and_questions() {
    for name in ["interrupt-text", "interrupt-tool", "interrupt-permission"] {
        let play = recorded(name);
        assert_eq!(play.outcomes()[0], &Outcome::Interrupted, "{name}");
        assert_eq!(
            play.paths().iter().filter(|path| path.ends_with("/abort")).count(),
            1,
            "{name}"
        );
    }
    let play = recorded("interrupt-text");
    // The late second idle event did not end the second turn. The recording interrupted that turn
    // after its complete answer.
    assert_eq!(shown(&play, false).last().map(String::as_str), Some("Alive after the interrupt."));
    assert_eq!(play.outcomes()[1], &Outcome::Interrupted);
    let play = recorded("interrupt-permission");
    assert!(play.actions.contains(&Action::AskWithdrawn(play.asks()[0].ask)));
    assert_eq!(ends(&play), [(ToolStatus::Cancelled, "Tool execution aborted")]);
    assert_eq!(ends(&recorded("interrupt-tool"))[0].0, ToolStatus::Cancelled);
}

#[test]
fn an_interrupt_during_the_start_ends_the_turn_at_once_and_sends_nothing() {
    let mut play = Play::server();
    interrupt(play.start(plain(1)), 1);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
    play.finish();
    assert_eq!(play.paths(), ["GET /global/health"]);
    play.start(plain(2)).answer("POST /session", 200, &session("ses_1"));
    assert_eq!(play.paths().last(), Some(&"POST /session/ses_1/prompt_async"));
}

#[test]
fn an_interrupted_turn_ends_after_a_grace_period_and_a_late_prompt_is_aborted() {
    let mut play = prompted(plain(1));
    interrupt(&mut play, 1).answer("abort", 200, "true").elapse(3900.0);
    assert_eq!(play.done().len(), 0);
    play.elapse(200.0);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
    busy(&mut play);
    assert_eq!(play.paths().iter().filter(|path| path.ends_with("/abort")).count(), 2);
}

#[test]
fn the_interrupt_is_repeated_if_it_only_ended_a_sub_agent() {
    let play = recorded("question-reject-sub-agent-interrupt");
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Interrupted]);
    assert_eq!(play.paths().iter().filter(|path| path.ends_with("/abort")).count(), 2);
    assert_eq!(play.bodies("/question/"), [json!({})], "a rejected question ends the turn");
    assert_eq!(answers(&play), [&QueryResult::Done], "the conversation was compacted");
    assert!(shown(&play, false).iter().all(|text| !text.contains("Here is the conversation")));
}

#[test]
fn errors_end_the_turn_exactly_once_with_their_kind() {
    let play = recorded("errors");
    assert_eq!(failures(&play), [FailureKind::BadRequest, FailureKind::ModelNotFound]);
    assert!(
        matches!(&play.done()[0].outcome, Outcome::Failed(failure) if failure.message == "prompt is bad")
    );
    for (status, kind) in [
        (401, FailureKind::Authentication),
        (429, FailureKind::RateLimited),
        (500, FailureKind::Overloaded),
    ] {
        let mut play = prompted(plain(1));
        let error = json!({"name": "APIError", "data": {"message": "no", "statusCode": status}});
        busy(&mut play).tell("session.error", json!({"sessionID": "ses_1", "error": error}));
        idle(idle(&mut play));
        assert_eq!(failures(&play), [kind]);
        assert!(
            play.start(plain(2)).answer("prompt_async", 204, "").done().len() == 1,
            "the next turn runs"
        );
        idle(&mut play);
        assert_eq!(play.done().len(), 1, "the second idle event belongs to the previous turn");
    }
}

#[test]
fn a_long_pause_after_a_usage_limit_ends_the_turn_with_the_wait() {
    let retry = |play: &mut Play, attempt: u32, message: &str, next: f64| {
        let status = json!({"type": "retry", "attempt": attempt, "message": message, "next": next});
        play.tell("session.status", json!({"sessionID": "ses_1", "status": status}));
    };
    let limited = "Too Many Requests: you have sent all requests of the day";
    let asked = || {
        let mut play = prompted(plain(1));
        let info = json!({"id": "msg_2", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_1",
            "time": {"created": 1_795_749_000_000.0}});
        busy(&mut play).tell("message.updated", json!({ "info": info }));
        play
    };
    let aborts = |play: &Play| play.paths().iter().filter(|path| path.ends_with("/abort")).count();

    let mut play = asked();
    // OpenCode first tries again by itself.
    retry(&mut play, 1, limited, 1_795_749_002_000.0);
    retry(&mut play, 2, limited, 1_795_749_062_000.0);
    assert_eq!(aborts(&play), 0);
    retry(&mut play, 3, limited, 1_795_759_862_000.0);
    assert_eq!(aborts(&play), 1);
    play.answer("/abort", 200, "true");
    idle(&mut play);
    let [done] = &play.done()[..] else { panic!("one end") };
    let Outcome::Failed(failure) = &done.outcome else { panic!("{:?}", done.outcome) };
    assert_eq!(
        (failure.kind, failure.retry_after_ms),
        (FailureKind::RateLimited, Some(10_800_000))
    );

    let mut play = asked();
    retry(&mut play, 1, "server boom", 1_795_759_862_000.0);
    assert_eq!(aborts(&play), 0, "only a limit ends the turn");
}

#[test]
fn an_error_without_an_idle_event_ends_the_turn_after_a_delay() {
    let mut play = prompted(plain(1));
    let error = json!({"name": "UnknownError", "data": {"message": "Agent not found: \"nope\"."}});
    play.tell("session.error", json!({"sessionID": "ses_1", "error": error})).elapse(1400.0);
    assert_eq!(play.done().len(), 0);
    play.elapse(200.0);
    assert_eq!(failures(&play), [FailureKind::BadRequest]);
}

#[test]
fn after_a_context_overflow_the_conversation_is_compacted_and_the_turn_continues() {
    let play = recorded("overflow");
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(shown(&play, false), ["no script "], "the summary is not part of the answer");
    let compaction = Compaction { done: true, tokens_before: None, tokens_after: None };
    assert!(play.events().contains(&&EventKind::Compaction(compaction)));
}

#[test]
fn retries_are_reported() {
    let play = recorded("retry");
    let retries = play.events().into_iter().filter_map(|event| match event {
        EventKind::Retry(failure) => Some((failure.kind, failure.message.as_str())),
        _ => None,
    });
    assert_eq!(
        retries.collect::<Vec<_>>(),
        [
            (FailureKind::Overloaded, "attempt 1: server boom"),
            (FailureKind::Overloaded, "attempt 2: server boom"),
        ]
    );
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
}

#[test]
fn a_message_steered_into_a_turn_belongs_to_it() {
    let play = recorded("steer");
    assert!(
        play.actions
            .contains(&Action::Steered(Steered { message: 7, outcome: SteerOutcome::Injected }))
    );
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(
        play.done()[0].text.as_deref(),
        Some("Steered: STEER please also say bananaplan finished")
    );
}

#[test]
fn the_turn_waits_for_the_answer_to_a_late_steered_message() {
    let mut play = prompted(plain(1));
    says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "first"}));
    let parts = vec![Part::Text("and?".to_owned())];
    let steer = Steer { session: 1, turn: 1, message: 7, parts, fresh_id: String::new() };
    play.command(Command::Steer(steer));
    idle(&mut play).answer("prompt_async", 204, "");
    assert_eq!(play.done().len(), 0);
    play.tell(
        "message.updated",
        json!({"sessionID": "ses_1", "info": {"id": "msg_2", "role": "user"}}),
    );
    play.tell("session.status", json!({"sessionID": "ses_1", "status": {"type": "busy"}}));
    play.tell("message.updated", json!({"sessionID": "ses_1", "info": {"id": "msg_3", "role": "assistant", "parentID": "msg_2"}}));
    let part = json!({"type": "text", "id": "prt_3", "messageID": "msg_3", "text": "second"});
    play.tell("message.part.updated", json!({"sessionID": "ses_1", "part": part}));
    assert_eq!(idle(&mut play).outcomes(), [&Outcome::Completed]);
    assert_eq!(shown(&play, false), ["first", "second"]);
}

#[test]
fn a_server_crash_loses_the_turns_and_the_next_turn_starts_a_new_server() {
    let play = recorded("killed");
    let [TurnDone { outcome: Outcome::Lost(failure), .. }] = play.done()[..] else {
        panic!("{:?}", play.done())
    };
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Crashed, "OpenCode's server was ended by signal 9")
    );
    let mut play = prompted(plain(1));
    play.exit(Exit::Code(1), "Error: out of file handles\n");
    assert!(
        matches!(&play.done()[0].outcome, Outcome::Lost(failure) if failure.message == "OpenCode's server ended (exit code 1): Error: out of file handles")
    );
    play.start(plain(2));
    assert_eq!(play.actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count(), 2);
    play.input(Input::Line(Line {
        proc: play.proc.unwrap(),
        pipe: Pipe::Stdout,
        text: "opencode server listening on http://127.0.0.1:5".to_owned(),
        truncated: false,
    }));
    // The same session is used, and its permissions are set again.
    assert_eq!(
        play.paths()[play.paths().len() - 2..],
        ["PATCH /session/ses_1", "POST /session/ses_1/prompt_async"]
    );
}

#[test]
fn a_server_that_cannot_be_started_fails_the_turn() {
    let mut play = Play::server();
    play.start(plain(1));
    let failed = SpawnFailed {
        proc: play.proc.unwrap(),
        message: "no such program".to_owned(),
        not_found: true,
    };
    play.input(Input::SpawnFailed(failed));
    assert_eq!(failures(&play), [FailureKind::NotFound]);
}

#[test]
fn a_lost_stream_is_opened_again_and_missed_messages_are_loaded() {
    let mut play = prompted(plain(1));
    says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "fir"}));
    play.close_stream().answer("/session/status", 200, "{}");
    let messages = json!([
        {"info": {"id": "msg_old", "role": "assistant"}, "parts": [{"type": "text", "id": "prt_0", "messageID": "msg_old", "text": "old"}]},
        {"info": {"id": "msg_of_user_0", "role": "user"}, "parts": []},
        {"info": {"id": "msg_1", "role": "assistant", "parentID": "msg_of_user_0"}, "parts": [{"type": "text", "id": "prt_1", "messageID": "msg_1", "text": "first"}]},
    ]);
    play.answer("GET /session/ses_1/message", 200, &messages.to_string());
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(shown(&play, false), ["first"]);
    // In the next turn, the stream breaks before it delivers any event.
    play.start(plain(2)).answer("prompt_async", 204, "").close_stream();
    assert!(
        matches!(play.outcomes()[1], Outcome::Lost(failure) if failure.kind == FailureKind::Crashed),
        "{:?}",
        play.outcomes()
    );
    assert!(
        matches!(play.actions.last(), Some(Action::Stop(_))),
        "the unreachable server is stopped"
    );
}

#[test]
fn after_missed_events_partial_text_has_no_gaps_and_open_questions_are_asked() {
    let mut play = prompted(plain(1));
    says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "one, "}));
    play.close_stream().answer("/session/status", 200, r#"{"ses_1": {"type": "busy"}}"#);
    let part = |id: &str| json!({"type": "text", "id": id, "messageID": "msg_1", "text": ""});
    let messages = json!([
        {"info": {"id": "msg_of_user_0", "role": "user"}, "parts": []},
        {"info": {"id": "msg_1", "role": "assistant", "parentID": "msg_of_user_0"}, "parts": [part("prt_1"), part("prt_2")]},
    ]);
    play.answer("GET /session/ses_1/message", 200, &messages.to_string());
    let request = |id: &str, session: &str| json!({"id": id, "sessionID": session, "permission": "bash", "patterns": ["make"], "metadata": {}, "always": []});
    let requests = json!([request("per_1", "ses_1"), request("per_2", "ses_of_others")]);
    play.answer("GET /permission", 200, &requests.to_string());
    play.answer("GET /question", 200, "[]");
    let asked = play.actions.iter().filter(|action| matches!(action, Action::Ask(_))).count();
    assert_eq!(asked, 1);
    for part in ["prt_1", "prt_2"] {
        let delta = json!({"sessionID": "ses_1", "messageID": "msg_1", "partID": part, "field": "text", "delta": "three"});
        play.tell("message.part.delta", delta);
    }
    assert_eq!(shown(&play, false), ["one, "]);
    says(&mut play, "msg_1", json!({"type": "text", "id": "prt_1", "text": "one, two, three"}));
    assert_eq!(shown(&play, false), ["one, two, three"]);
}

#[test]
fn the_next_turn_starts_a_new_server_while_an_unreachable_one_exits() {
    let mut play = Play::server();
    play.start(plain(1)).finish().close_stream();
    assert_eq!(failures(&play), [FailureKind::Crashed], "the stream delivered no events");
    assert!(matches!(play.actions.last(), Some(Action::Stop(stop)) if stop.proc == 1));
    play.start(plain(2));
    assert_eq!(play.proc, Some(2));
    let listens = |proc| Line {
        proc,
        pipe: Pipe::Stdout,
        text: "opencode server listening on http://127.0.0.1:5".to_owned(),
        truncated: false,
    };
    play.input(Input::Line(listens(1)));
    play.input(Input::Exited(Exited {
        proc: 1,
        how: Exit::Signal(15),
        stderr_tail: String::new(),
    }));
    assert_eq!(play.done().len(), 1);
    play.input(Input::Line(listens(2))).answer("POST /session", 500, "");
    assert_eq!(play.done().len(), 1, "one turn has ended so far");
    play.answer("POST /session", 200, &session("ses_1"));
    assert_eq!(play.paths().last(), Some(&"POST /session/ses_1/prompt_async"));
}

#[test]
fn an_interrupted_turn_ends_as_interrupted_if_the_server_crashes() {
    let mut play = prompted(plain(1));
    interrupt(&mut play, 1).exit(Exit::Signal(9), "");
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
}

#[test]
fn a_turn_during_the_shutdown_waits_for_a_new_server() {
    let mut play = prompted(plain(1));
    idle(says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    play.command(Command::Shutdown).start(plain(2)).close_stream();
    assert!(matches!(play.actions.last(), Some(Action::Stop(_))), "{:?}", play.actions.last());
    play.exit(Exit::Signal(15), "");
    assert_eq!((play.proc, play.done().len()), (Some(2), 1));
}

#[test]
fn a_refused_prompt_fails_with_the_servers_error() {
    for (status, body, kind) in [
        (
            400,
            r#"{"name":"BadRequest","data":{"message":"Expected array","kind":"Payload"}}"#,
            FailureKind::BadRequest,
        ),
        (401, "", FailureKind::Authentication),
        (
            404,
            r#"{"name":"NotFoundError","data":{"message":"Session not found: ses_1"}}"#,
            FailureKind::SessionUnknown,
        ),
        (
            500,
            r#"{"name":"UnknownError","data":{"message":"Unexpected server error."}}"#,
            FailureKind::Other,
        ),
    ] {
        let mut play = Play::server();
        play.start(plain(1)).finish().answer("POST /session", 200, &session("ses_1")).answer(
            "prompt_async",
            status,
            body,
        );
        assert_eq!(failures(&play), [kind], "{status}");
    }
}

#[test]
fn a_shutdown_terminates_the_server() {
    let mut play = recorded("hello");
    assert!(play.proc.is_none(), "the recording ends with the server's exit");
    let before = play.actions.len();
    play.command(Command::Shutdown);
    assert_eq!(play.actions.len(), before);
    let mut play = prompted(plain(1));
    idle(says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    play.command(Command::Shutdown);
    assert!(
        matches!(play.actions.last(), Some(Action::Stop(stop)) if Some(stop.proc) == play.proc)
    );
}

#[test]
fn events_of_unknown_sessions_and_after_the_end_are_ignored() {
    let mut play = prompted(plain(1));
    idle(says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    let before = play.actions.len();
    says(&mut play, "msg_1", json!({"type": "text", "id": "prt_1", "text": "late"}));
    play.tell(
        "permission.asked",
        json!({"id": "per_1", "sessionID": "ses_1", "permission": "bash"}),
    );
    play.tell("session.error", json!({"sessionID": "ses_other", "error": {"name": "UnknownError", "data": {"message": "x"}}}));
    play.tell(
        "message.updated",
        json!({"sessionID": "ses_other", "info": {"id": "m", "role": "assistant"}}),
    );
    idle(&mut play);
    assert_eq!(play.actions.len(), before, "{:?}", &play.actions[before..]);
}
