//! Questions to the user and queries of the host, in recorded dialogues with `opencode serve`
//! 1.18.33.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod play;

use aetheel_backend_sdk::wit::{
    Action, AskKind, Decision, EventKind, Exit, FailureKind, Outcome, QueryKind, QueryResult,
    Safety, StartTurn, ToolStatus, Value as Argument,
};
use play::said::*;
use play::{Play, turn};
use serde_json::json;

#[test]
fn decisions_are_sent_in_opencodes_format() {
    for (name, reply) in [
        ("permission-once", json!({"reply": "once"})),
        ("permission-always", json!({"reply": "once"})),
        ("permission-reject", json!({"reply": "reject"})),
        (
            "permission-reject-message",
            json!({"reply": "reject", "message": "Use another file name please."}),
        ),
    ] {
        let play = recorded(name);
        assert_eq!(play.bodies("POST /permission/")[0], reply, "{name}");
        let stopped = name == "permission-reject";
        assert_eq!(
            play.outcomes(),
            [if stopped { &Outcome::Interrupted } else { &Outcome::Completed }],
            "{name}"
        );
        let AskKind::Permission(start) = &play.asks()[0].kind else { panic!("{name}") };
        assert_eq!(
            (start.kind.as_str(), start.target.as_deref().unwrap().split(' ').next()),
            ("bash", Some("touch")),
            "{name}"
        );
    }
    assert_eq!(ends(&recorded("permission-reject"))[0].0, ToolStatus::Denied);
    assert_eq!(
        recorded("permission-reject-message").done()[0].text.as_deref(),
        Some("After the rejection with feedback.")
    );
    assert_eq!(recorded("question").bodies("POST /question/"), [json!({"answers": [["Blue"]]})]);
}

#[test]
fn an_edit_permission_contains_the_diff() {
    let play = recorded("permission-edit");
    let AskKind::Permission(start) = &play.asks()[0].kind else { panic!("no permission") };
    assert!(
        start.kind == "file_edit" && start.native_name == "write" && start.input.contains("+one"),
        "{start:?}"
    );
    assert_eq!(play.asks()[0].always_label.as_deref(), Some("Allow edit * in this session"));
    let diff = &play.asks()[0].diffs[0];
    assert_eq!(diff.path, "/srv/proj/c.txt");
    assert!(diff.unified.as_deref().unwrap().contains("\n+one\n+two\n"), "{diff:?}");
}

#[test]
fn always_applies_only_to_its_session() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    asked(&mut play, "per_1", "bash");
    asked(&mut play, "per_2", "bash");
    asked(&mut play, "per_3", "webfetch");
    let first = play.asks()[0].ask;
    play.answer_ask(first, Decision::AllowAlways);
    asked(&mut play, "per_4", "bash");
    assert_eq!(play.asks().len(), 3);
    let replies: Vec<_> = play
        .paths()
        .into_iter()
        .filter(|path| path.contains("/permission/"))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        replies,
        [
            "POST /permission/per_1/reply",
            "POST /permission/per_2/reply",
            "POST /permission/per_4/reply"
        ]
    );
    assert!(play.bodies("/permission/").iter().all(|body| *body == json!({"reply": "once"})));
    let second = play.asks()[1].ask;
    assert!(play.actions.contains(&Action::AskWithdrawn(second)));
    // Another session of the same directory needs a question.
    play.start(StartTurn { session: 2, ..plain(2) })
        .answer("POST /session", 200, &session("ses_2"))
        .answer("ses_2/prompt_async", 204, "");
    play.tell(
        "permission.asked",
        json!({"id": "per_5", "sessionID": "ses_2", "permission": "bash", "patterns": ["touch a"], "always": ["touch *"]}),
    );
    assert_eq!(play.asks().len(), 4);
    assert_eq!(play.asks()[3].session, 2);
}

#[test]
fn always_is_revoked_when_the_level_changes() {
    let mut play = prompted(at(Safety::Edit, turn(1, "hi")));
    busy(&mut play);
    asked(&mut play, "per_1", "bash");
    let first = play.asks()[0].ask;
    play.answer_ask(first, Decision::AllowAlways);
    idle(says(&mut play, "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    for (number, start) in [(2, at(Safety::Edit, turn(2, "hi"))), (3, plain(3))] {
        play.start(start).answer("prompt_async", 204, "");
        busy(&mut play);
        asked(&mut play, &format!("per_{number}"), "bash");
        idle(says(
            &mut play,
            &format!("msg_{number}"),
            json!({"type": "text", "id": format!("prt_{number}"), "text": "ok"}),
        ));
    }
    let turns: Vec<u32> = play.asks().iter().map(|ask| ask.turn).collect();
    assert_eq!(turns, [1, 3]);
}

#[test]
fn dismissed_requests_are_refused_with_a_message() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    asked(&mut play, "per_1", "bash");
    let questions = json!([{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], "multiple": true}, {"question": "What?", "custom": false}]);
    play.tell(
        "question.asked",
        json!({"id": "que_1", "sessionID": "ses_1", "questions": questions.clone()}),
    );
    let (permission, question) = (play.asks()[0].ask, play.asks()[1].ask);
    let AskKind::Questions(found) = &play.asks()[1].kind else { panic!("no questions") };
    let forms: Vec<_> = found
        .iter()
        .map(|question| {
            (question.id.as_str(), question.options.len(), question.many, question.free_text)
        })
        .collect();
    assert_eq!(forms, [("0", 2, true, true), ("1", 0, false, false)]);
    play.answer_ask(permission, Decision::Dismissed).answer_ask(question, Decision::Dismissed);
    assert_eq!(play.bodies("/permission/")[0]["reply"], "reject");
    assert!(
        play.bodies("/permission/")[0]["message"]
            .as_str()
            .unwrap()
            .starts_with("The request was not answered"),
        "the model continues after a message"
    );
    assert_eq!(play.bodies("/question/"), [json!({"answers": [[], []]})]);
    play.tell(
        "question.asked",
        json!({"id": "que_2", "sessionID": "ses_1", "questions": questions}),
    );
    let last = play.asks()[2].ask;
    play.answer_ask(last, Decision::Deny(Some("ask me later".to_owned())));
    assert_eq!(
        play.bodies("que_2/reply"),
        [json!({"answers": [["ask me later"], ["ask me later"]]})]
    );
}

#[test]
fn a_question_that_was_answered_elsewhere_is_withdrawn_and_a_late_answer_is_ignored() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    asked(&mut play, "per_1", "bash");
    let ask = play.asks()[0].ask;
    play.tell(
        "permission.replied",
        json!({"sessionID": "ses_1", "requestID": "per_1", "reply": "once"}),
    );
    assert_eq!(play.actions.last(), Some(&Action::AskWithdrawn(ask)));
    let before = play.actions.len();
    play.answer_ask(ask, Decision::AllowOnce);
    assert_eq!(play.actions.len(), before);
}

#[test]
fn a_sub_agent_is_a_tool_use_with_nested_tool_uses_and_its_text_is_not_the_answer() {
    let play = recorded("sub-agent");
    assert_eq!(shown(&play, false), ["parent done "]);
    let starts = play.events().into_iter().filter_map(|event| match event {
        EventKind::ToolStart(start) if start.input != "{}" => {
            Some((start.kind.as_str(), start.parent.as_deref(), start.id.as_str()))
        }
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    let spawn = starts.iter().find(|(kind, ..)| *kind == "agent_spawn").unwrap();
    let bash = starts.iter().find(|(kind, ..)| *kind == "bash").unwrap();
    assert_eq!(bash.1, Some(spawn.2));
    // The turn may do everything, so its sub-agent needs no questions either.
    assert_eq!(play.asks().len(), 0);
    assert_eq!(play.bodies("/permission/"), [json!({"reply": "once"})]);
    let usage = play.done()[0].usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.context_used),
        (4 * 90, Some(120)),
        "two model requests of each agent"
    );
}

#[test]
fn a_sub_agent_below_the_highest_level_needs_permissions() {
    let play = recorded("question-reject-sub-agent-interrupt");
    let ask = play.asks()[1];
    assert_eq!((ask.turn, ask.title.as_str()), (2, "OpenCode asks to use bash: cp a1 cc"));
    let mut play = Play::load("sub-agent");
    play.start(plain(1)).until("permission.asked");
    let ask = play.asks()[0].ask;
    play.answer_ask(ask, Decision::DenyAndStop);
    assert_eq!(
        play.paths().last().map(|path| path.ends_with("/abort")),
        Some(true),
        "a refusal of the sub-agent would not end the turn"
    );
}

#[test]
fn queries_of_the_host_are_answered_by_the_server() {
    let mut play = Play::server();
    query(&mut play, 1, QueryKind::Health).finish();
    assert_eq!(answers(&play), [&QueryResult::Health("OpenCode 1.18.33 is healthy".to_owned())]);
    let list = json!([
        {"id": "ses_9", "title": "Nine", "directory": "/srv/proj", "time": {"updated": 1_795_294_757_568_u64}},
        {"id": "ses_8", "parentID": "ses_9", "title": "sub", "directory": "/srv/proj"},
    ]);
    query(&mut play, 2, QueryKind::Sessions).answer("GET /session", 200, &list.to_string());
    let QueryResult::Sessions(sessions) = answers(&play)[1] else { panic!("{:?}", answers(&play)) };
    assert_eq!(sessions.len(), 1);
    assert_eq!(
        (sessions[0].title.as_deref(), sessions[0].updated.as_deref()),
        (Some("Nine"), Some("2026-11-21T20:59:17Z"))
    );
    query(&mut play, 3, QueryKind::Compact);
    assert!(matches!(answers(&play).last(), Some(QueryResult::Failed(_))));
}

#[test]
fn a_compaction_ends_with_the_servers_event_or_error() {
    let error = json!({"sessionID": "ses_1", "error": {"name": "APIError", "data": {"message": "no", "statusCode": 429}}});
    let of_session = || json!({"sessionID": "ses_1"});
    let asked = || {
        let mut play = prompted(plain(1));
        let assistant = json!({"id": "msg_2", "role": "assistant", "sessionID": "ses_1", "providerID": "mock", "modelID": "mock-model"});
        busy(&mut play).tell("message.updated", json!({"sessionID": "ses_1", "info": assistant}));
        idle(&mut play).elapse(5000.0);
        assert_eq!(play.done().len(), 1);
        query(&mut play, 1, QueryKind::Compact);
        play
    };
    let taken = |play: &mut Play| {
        play.answer("/summarize", 200, "true");
    };

    let mut play = asked();
    taken(&mut play);
    assert_eq!(answers(&play), [] as [&QueryResult; 0], "the compaction only started");
    play.tell("session.error", error.clone());
    assert!(
        matches!(answers(&play)[..], [QueryResult::Failed(failure)] if failure.kind == FailureKind::RateLimited),
        "{:?}",
        answers(&play)
    );
    idle(&mut play);
    assert_eq!(answers(&play).len(), 1);

    let mut play = asked();
    play.tell("session.error", error);
    assert!(answers(&play).is_empty());
    taken(&mut play);
    assert!(
        matches!(answers(&play)[..], [QueryResult::Failed(_)]),
        "events may arrive before the answer"
    );

    let mut play = asked();
    taken(&mut play);
    play.tell("session.compacted", of_session());
    assert_eq!(answers(&play), [&QueryResult::Done]);

    let mut play = asked();
    taken(&mut play);
    idle(&mut play);
    assert!(answers(&play).is_empty(), "late events of the previous turn are ignored");
    idle(busy(&mut play));
    assert!(
        matches!(answers(&play)[..], [QueryResult::Failed(_)]),
        "the conversation was not compacted"
    );

    let mut play = asked();
    taken(&mut play);
    play.exit(Exit::Signal(9), "");
    assert!(
        matches!(answers(&play)[..], [QueryResult::Failed(failure)] if failure.kind == FailureKind::Crashed),
        "{:?}",
        answers(&play)
    );
}

#[test]
fn models_are_listed_by_a_command_that_prints_no_keys() {
    let mut play = Play::server();
    query(&mut play, 1, QueryKind::Models);
    let Some(Action::Spawn(spawn)) = play.actions.last().cloned() else {
        panic!("{:?}", play.actions)
    };
    assert_eq!(spawn.arguments, [Argument::Text("models".to_owned())]);
    for text in ["opencode/big-pickle", "mock/mock-model", ""] {
        let line = aetheel_backend_sdk::wit::Line {
            proc: spawn.proc,
            pipe: aetheel_backend_sdk::wit::Pipe::Stdout,
            text: text.to_owned(),
            truncated: false,
        };
        play.input(aetheel_backend_sdk::wit::Input::Line(line));
    }
    let exited = aetheel_backend_sdk::wit::Exited {
        proc: spawn.proc,
        how: Exit::Code(0),
        stderr_tail: String::new(),
    };
    play.input(aetheel_backend_sdk::wit::Input::Exited(exited));
    let QueryResult::Models(models) = answers(&play)[0] else { panic!("{:?}", answers(&play)) };
    assert_eq!(
        models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(),
        ["opencode/big-pickle", "mock/mock-model"]
    );
}
