//! What recorded dialogues with `opencode serve` 1.18.33 become: each whole (`inputs.jsonl` and `actions.jsonl` beside it),
//! and the hazards by name.
#![allow(clippy::unwrap_used)]

mod play;

use aetheel_backend_sdk::wit::{
    Action, AskKind, Attachment, Command, Decision, Delivery, EventKind, Exit, FailureKind, Mode, Outcome, Part, PlanStatus, Query,
    QueryKind, QueryResult, Safety, Settings, StartTurn, Steer, SteerOutcome, Steered, ToolStatus, TurnDone, TurnRef, Value as Argument,
};
use play::{Play, turn};
use serde_json::{Value, json};

fn at(level: Safety, start: StartTurn) -> StartTurn {
    StartTurn { settings: Settings { safety: level, ..start.settings.clone() }, ..start }
}

fn plain(number: u32) -> StartTurn {
    at(Safety::Default, turn(number, "hi"))
}

fn interrupt(play: &mut Play, turn: u32) -> &mut Play {
    play.command(Command::Interrupt(TurnRef { session: 1, turn }))
}

fn query(play: &mut Play, query: u32, kind: QueryKind) -> &mut Play {
    play.command(Command::Query(Query { query, session: Some(1), kind }))
}

fn answers(play: &Play) -> Vec<&QueryResult> {
    play.actions.iter().filter_map(|action| if let Action::QueryAnswer(answer) = action { Some(&answer.answer) } else { None }).collect()
}

fn failures(play: &Play) -> Vec<FailureKind> {
    let kind = |outcome: &&Outcome| match outcome {
        Outcome::Failed(failure) | Outcome::Lost(failure) => failure.kind,
        other => panic!("{other:?}"),
    };
    play.outcomes().iter().map(kind).collect()
}

/// The texts people see, by parts, of the answer or of the thinking.
fn shown(play: &Play, thinking: bool) -> Vec<String> {
    let mut parts: Vec<((u32, u32, u32), String)> = Vec::new();
    for action in &play.actions {
        let Action::Event(event) = action else { continue };
        let text = match &event.kind {
            EventKind::Text(text) if !thinking => text,
            EventKind::Thinking(text) if thinking => text,
            _ => continue,
        };
        let key = (event.session, event.turn, text.part);
        match parts.iter_mut().find(|(part, _)| *part == key) {
            Some((_, said)) if text.replace => text.text.clone_into(said),
            Some((_, said)) => said.push_str(&text.text),
            None => parts.push((key, text.text.clone())),
        }
    }
    parts.into_iter().map(|(_, said)| said).filter(|said| !said.is_empty()).collect()
}

fn ends(play: &Play) -> Vec<(ToolStatus, &str)> {
    let end = |event: &&EventKind| matches!(event, EventKind::ToolEnd(_));
    play.events()
        .into_iter()
        .filter(end)
        .map(|event| match event {
            EventKind::ToolEnd(end) => (end.status, end.output.as_deref().unwrap_or_default()),
            _ => unreachable!(),
        })
        .collect()
}

fn unrecognised(play: &Play) -> Vec<&EventKind> {
    play.events().into_iter().filter(|event| matches!(event, EventKind::Unrecognised(_))).collect()
}

fn session(id: &str) -> String {
    json!({"id": id, "title": "New session - now"}).to_string()
}

/// A server with a session whose turn 1 was prompted.
fn prompted(start: StartTurn) -> Play {
    let mut play = Play::server();
    play.start(start).finish().answer("POST /session", 200, &session("ses_1")).answer("prompt_async", 204, "");
    play
}

/// The agent says something whole in a message of its own.
fn says<'a>(play: &'a mut Play, message: &str, part: Value) -> &'a mut Play {
    let parent = format!("msg_of_user_{}", play.done().len());
    play.tell("message.updated", json!({"sessionID": "ses_1", "info": {"id": message, "role": "assistant", "parentID": parent}}));
    let mut part = part;
    part["messageID"] = json!(message);
    play.tell("message.part.updated", json!({"sessionID": "ses_1", "part": part}))
}

fn busy(play: &mut Play) -> &mut Play {
    let id = format!("msg_of_user_{}", play.done().len());
    play.tell("message.updated", json!({"sessionID": "ses_1", "info": {"id": id, "role": "user"}}));
    play.tell("session.status", json!({"sessionID": "ses_1", "status": {"type": "busy"}}))
}

fn idle(play: &mut Play) -> &mut Play {
    play.tell("session.status", json!({"sessionID": "ses_1", "status": {"type": "idle"}}));
    play.tell("session.idle", json!({"sessionID": "ses_1"}))
}

/// What the recordings are made of, turn by turn.
fn recorded(name: &str) -> Play {
    let mut play = Play::load(name);
    let decide = |play: &mut Play, decision: Decision| {
        let ask = play.asks().last().unwrap().ask;
        play.answer_ask(ask, decision);
    };
    match name {
        "hello" => {
            play.start(turn(1, "one")).until_request("prompt_async").until_request("prompt_async");
            let settings = Settings { mode: Mode::Plan, effort: Some("high".to_owned()), ..turn(2, "").settings };
            play.start(StartTurn { settings, ..turn(2, "two") });
        }
        "permission-once" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::AllowOnce);
            play.until("permission.asked");
            decide(&mut play, Decision::AllowOnce);
        }
        "permission-always" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::AllowAlways);
        }
        "permission-edit" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::AllowOnce);
        }
        "permission-reject" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::DenyAndStop);
        }
        "permission-reject-message" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::Deny(Some("Use another file name please.".to_owned())));
        }
        "question" => {
            play.start(turn(1, "one")).until("question.asked");
            decide(&mut play, Decision::Answers(vec![("0".to_owned(), vec!["Blue".to_owned()])]));
        }
        "interrupt-text" => {
            play.start(turn(1, "one")).until_request("abort");
            interrupt(&mut play, 1).until_request("prompt_async").start(turn(2, "two"));
        }
        "interrupt-tool" | "interrupt-permission" => {
            play.start(plain(1)).until_request("abort");
            interrupt(&mut play, 1);
        }
        "errors" => {
            play.start(turn(1, "one")).until_request("prompt_async").until("session.idle").until_request("prompt_async");
            let settings = Settings { model: Some("nope/nope".to_owned()), ..turn(2, "").settings };
            play.start(StartTurn { settings, ..turn(2, "two") });
        }
        "two-sessions" => {
            play.start(StartTurn { session: 1, ..turn(1, "one") }).until("server.connected");
            play.start(StartTurn { session: 2, cwd: "/srv/other".to_owned(), ..turn(2, "two") });
        }
        "resume-fork" => {
            play.start(StartTurn { native_id: Some("ses_e00199e71ffeVhPfn6SHYhpJ8W".to_owned()), ..turn(1, "one") });
            play.until_request("/fork");
            let copy = StartTurn { native_id: Some("ses_e00199e71ffeVhPfn6SHYhpJ8W".to_owned()), fork: true, ..turn(1, "two") };
            play.start(StartTurn { session: 2, ..copy });
        }
        "question-reject-sub-agent-interrupt" => {
            play.start(plain(1)).until("question.asked");
            decide(&mut play, Decision::DenyAndStop);
            play.until_request("prompt_async").start(plain(2)).until_request("abort");
            interrupt(&mut play, 2).until_request("summarize");
            query(&mut play, 1, QueryKind::Compact);
        }
        "steer" => {
            play.start(turn(1, "one")).until_request("prompt_async").until_request("prompt_async");
            let parts = vec![Part::Text("please also say banana".to_owned())];
            let steer = Steer { session: 1, turn: 1, message: 7, parts, delivery: Delivery::Steer, fresh_id: String::new() };
            play.command(Command::Steer(steer));
        }
        _ => drop(play.start(turn(1, "one"))),
    }
    play.finish().elapse(5000.0);
    play
}

const RECORDED: [&str; 21] = [
    "errors",
    "hello",
    "image",
    "interrupt-permission",
    "interrupt-text",
    "interrupt-tool",
    "killed",
    "overflow",
    "permission-always",
    "permission-edit",
    "permission-once",
    "permission-reject",
    "permission-reject-message",
    "question",
    "question-reject-sub-agent-interrupt",
    "resume-fork",
    "retry",
    "steer",
    "sub-agent",
    "tools",
    "two-sessions",
];

#[test]
fn every_recorded_dialogue_becomes_what_is_written_beside_it() {
    for name in RECORDED {
        recorded(name).check();
    }
}

#[test]
fn nothing_the_real_server_says_is_unrecognised() {
    for name in RECORDED {
        assert_eq!(unrecognised(&recorded(name)), Vec::<&EventKind>::new(), "{name}");
    }
}

#[test]
fn a_server_is_started_once_healthy_and_listened_to_before_anything_is_asked() {
    let play = recorded("two-sessions");
    assert_eq!(play.actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count(), 1);
    let Action::Spawn(spawn) = &play.actions[0] else { panic!("{:?}", play.actions[0]) };
    assert!(spawn.listens && spawn.turn.is_none());
    assert_eq!(spawn.basic_auth.as_ref().unwrap().secret, "server-password");
    let password = spawn.environment.iter().find(|variable| variable.name == "OPENCODE_SERVER_PASSWORD").unwrap();
    assert_eq!(password.value, Argument::Secret("server-password".to_owned()));
    assert_eq!(play.paths()[..2], ["GET /global/health", "POST /session"]);
    assert!(matches!(&play.actions[2], Action::OpenStream(open) if open.path == "/global/event"));
}

#[test]
fn text_and_thinking_stream_and_the_prompt_is_not_echoed() {
    let play = recorded("hello");
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
    assert_eq!(play.done()[0].text.as_deref(), Some("Hello there from the mock model."));
    assert_eq!(shown(&play, true)[0], "Let me think about it.");
    assert!(shown(&play, false)[0].starts_with("Hello there from the mock model."), "{:?}", shown(&play, false));
    let usage = play.done()[0].usage.unwrap();
    assert_eq!((usage.input, usage.output, usage.reasoning, usage.cached, usage.context_used), (90, 20, 5, 10, Some(120)));
    assert!((usage.cost_usd.unwrap() - 0.000_573).abs() < 1e-9);
    let pieces = play.events().iter().filter(|event| matches!(event, EventKind::Text(text) if !text.replace)).count();
    assert!(pieces > 10, "it came in {pieces} pieces");
}

#[test]
fn settings_of_a_later_turn_are_in_force() {
    let play = recorded("hello");
    let prompts = play.bodies("prompt_async");
    assert_eq!((&prompts[0]["agent"], &prompts[0]["variant"]), (&json!("build"), &Value::Null));
    assert_eq!((&prompts[1]["agent"], &prompts[1]["variant"]), (&json!("plan"), &json!("high")));
    // The plan's permissions came first.
    let rules = &play.bodies("PATCH")[0]["permission"];
    assert!(rules.as_array().unwrap().contains(&json!({"permission": "edit", "pattern": "*", "action": "deny"})), "{rules}");
    assert_eq!(play.bodies("POST /session")[0], json!({"permission": [{"permission": "*", "pattern": "*", "action": "allow"}]}));
}

#[test]
fn the_model_the_system_prompt_and_images_go_with_every_prompt() {
    let image = Attachment { blob: 3, name: "a.png".to_owned(), media_type: "image/png".to_owned(), size: 9, path: "/f/a.png".to_owned() };
    let file = Attachment { media_type: "text/plain".to_owned(), name: "b.txt".to_owned(), path: "/f/b.txt".to_owned(), ..image.clone() };
    let settings = Settings { model: Some("a/b/c".to_owned()), system_prompt: Some("Be \"kind\".".to_owned()), ..turn(1, "").settings };
    let parts = vec![Part::Text("look\n\"there\"".to_owned()), Part::Image(image), Part::File(file)];
    let play = prompted(StartTurn { settings, parts, ..turn(1, "") });
    let expected = json!({
        "parts": [
            {"type": "text", "text": "look\n\"there\""},
            {"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,<base64 of 3>"},
            {"type": "text", "text": "[Attached file: b.txt (text/plain, 9 bytes) at /f/b.txt]"},
        ],
        "agent": "build", "model": {"providerID": "a", "modelID": "b/c"}, "system": "Be \"kind\".",
    });
    assert_eq!(play.bodies("prompt_async"), [expected]);
}

#[test]
fn a_model_that_was_chosen_once_is_taken_back() {
    let mut play = prompted(turn(1, "one"));
    let info = json!({"id": "ses_1", "title": "T", "model": {"id": "std", "providerID": "house"}});
    busy(&mut play).tell("session.updated", json!({"sessionID": "ses_1", "info": info}));
    idle(says(&mut play, "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    for (number, model) in [(2, Some("x/y")), (3, None)] {
        let settings = Settings { model: model.map(str::to_owned), ..turn(number, "").settings };
        play.start(StartTurn { settings, ..turn(number, "more") }).answer("prompt_async", 204, "");
        idle(says(busy(&mut play), &format!("msg_{number}"), json!({"type": "text", "id": format!("prt_{number}"), "text": "ok"})));
    }
    let models: Vec<_> = play.bodies("prompt_async").iter().map(|body| body["model"].clone()).collect();
    assert_eq!(models, [Value::Null, json!({"providerID": "x", "modelID": "y"}), json!({"providerID": "house", "modelID": "std"})]);
    assert!(play.events().contains(&&EventKind::Title("T".to_owned())));
}

#[test]
fn what_cannot_be_a_prompt_a_model_or_a_session_is_refused_before_anything_starts() {
    let settings = Settings { model: Some("gpt".to_owned()), ..turn(1, "").settings };
    for (start, kind) in [
        (turn(1, " \n"), FailureKind::BadRequest),
        (StartTurn { settings, ..turn(1, "hi") }, FailureKind::ModelNotFound),
        (StartTurn { native_id: Some("../x".to_owned()), ..turn(1, "hi") }, FailureKind::SessionUnknown),
    ] {
        let mut play = Play::server();
        play.start(start);
        assert_eq!(failures(&play), [kind]);
        assert_eq!(play.actions.len(), 1);
    }
}

#[test]
fn an_unknown_session_fails_as_such_and_the_next_turn_makes_a_new_one() {
    let mut play = Play::server();
    play.start(StartTurn { native_id: Some("ses_gone".to_owned()), ..plain(1) });
    // The player would answer that the session is there, so the server says first what it says.
    assert_eq!(play.paths(), [""; 0]);
    let mut play = Play::load("errors");
    play.start(StartTurn { native_id: Some("ses_unknown000000000000000000".to_owned()), ..plain(1) });
    play.until("server.connected");
    assert!(matches!(play.actions.last(), Some(Action::Http(_))), "{:?}", play.actions.last());
    let mut play = Play::server();
    let body = r#"{"name":"NotFoundError","data":{"message":"Session not found: ses_gone"}}"#;
    play.start(StartTurn { native_id: Some("ses_gone".to_owned()), fork: true, ..plain(1) }).finish().answer("/fork", 404, body);
    assert_eq!(failures(&play), [FailureKind::SessionUnknown]);
    play.start(plain(2)).answer("POST /session", 200, &session("ses_2"));
    assert_eq!(play.paths().last(), Some(&"POST /session/ses_2/prompt_async"));
}

#[test]
fn a_resumed_session_gets_its_permissions_before_the_prompt_and_a_copy_its_own() {
    let play = recorded("resume-fork");
    let paths = play.paths();
    let of = |text: &str| paths.iter().position(|path| path.contains(text)).unwrap_or_else(|| panic!("no {text} in {paths:?}"));
    assert!(of("PATCH /session/ses_e00199e71") < of("POST /session/ses_e00199e71ffeVhPfn6SHYhpJ8W/prompt_async"));
    assert!(
        of("/fork") < of("PATCH /session/ses_e0017d351")
            && of("PATCH /session/ses_e0017d351") < of("POST /session/ses_e0017d351ffeEcaGIHjFamMsYb/prompt_async")
    );
    let ready = play.actions.iter().filter_map(|action| match action {
        Action::SessionReady(ready) => Some((ready.session, ready.native_id.as_str())),
        _ => None,
    });
    assert_eq!(ready.collect::<Vec<_>>(), [(1, "ses_e00199e71ffeVhPfn6SHYhpJ8W"), (2, "ses_e0017d351ffeEcaGIHjFamMsYb")]);
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
    // What was copied is not said again, nor paid for.
    let usage: Vec<_> = play.done().iter().map(|done| done.usage.unwrap().input).collect();
    assert_eq!(usage, [90, 90]);
}

#[test]
fn two_sessions_in_two_directories_do_not_mix() {
    let play = recorded("two-sessions");
    let text = |session: u32| play.done().iter().find(|done| done.session == session).unwrap().text.clone().unwrap();
    assert_eq!((text(1), text(2)), ("A done".to_owned(), "B done".to_owned()));
    for action in &play.actions {
        if let Action::Event(event) = action
            && let EventKind::ToolEnd(end) = &event.kind
        {
            let place = if event.session == 1 { "/srv/proj\n" } else { "/srv/other\n" };
            assert_eq!(end.output.as_deref(), Some(place));
        }
    }
    let directories = play.actions.iter().filter_map(|action| match action {
        Action::Http(request) if request.path.contains("prompt_async") => request.path.split_once("directory=").map(|(_, value)| value),
        _ => None,
    });
    assert_eq!(directories.collect::<Vec<_>>(), ["%2Fsrv%2Fproj", "%2Fsrv%2Fother"]);
}

#[test]
fn tools_have_kinds_output_diffs_and_a_plan() {
    let play = recorded("tools");
    let mut kinds: Vec<&str> = Vec::new();
    for event in play.events() {
        if let EventKind::ToolStart(start) = event {
            kinds.push(&start.kind);
        }
    }
    kinds.dedup();
    assert_eq!(kinds, ["bash", "file_write", "file_read", "file_edit", "todo"]);
    let diffs = play.events().into_iter().filter_map(|event| match event {
        EventKind::ToolEnd(end) => end.diffs.first().map(|diff| (diff.path.as_str(), diff.unified.is_some(), diff.new_text.is_some())),
        _ => None,
    });
    assert_eq!(diffs.collect::<Vec<_>>(), [("/srv/proj/b.txt", false, true), ("/srv/proj/README.md", true, false)]);
    let plans = play.events().into_iter().filter_map(|event| match event {
        EventKind::Plan(plan) => Some((plan[0].text.as_str(), plan[0].status)),
        _ => None,
    });
    assert_eq!(plans.collect::<Vec<_>>(), [("one", PlanStatus::Active)]);
    assert_eq!(play.done()[0].usage.unwrap().input, 6 * 90, "six requests to the model");
}

#[test]
fn decisions_reach_the_agent_in_its_words() {
    for (name, reply) in [
        ("permission-once", json!({"reply": "once"})),
        ("permission-always", json!({"reply": "once"})),
        ("permission-reject", json!({"reply": "reject"})),
        ("permission-reject-message", json!({"reply": "reject", "message": "Use another file name please."})),
    ] {
        let play = recorded(name);
        assert_eq!(play.bodies("POST /permission/")[0], reply, "{name}");
        assert_eq!(play.outcomes(), [&Outcome::Completed], "{name}");
        let AskKind::Permission(start) = &play.asks()[0].kind else { panic!("{name}") };
        assert_eq!((start.kind.as_str(), start.target.as_deref().unwrap().split(' ').next()), ("bash", Some("touch")), "{name}");
    }
    assert_eq!(ends(&recorded("permission-reject"))[0].0, ToolStatus::Denied);
    assert_eq!(recorded("permission-reject-message").done()[0].text.as_deref(), Some("After the rejection with feedback."));
    assert_eq!(recorded("question").bodies("POST /question/"), [json!({"answers": [["Blue"]]})]);
}

#[test]
fn an_edit_is_asked_about_with_its_diff() {
    let play = recorded("permission-edit");
    let AskKind::Permission(start) = &play.asks()[0].kind else { panic!("no permission") };
    assert!(start.kind == "file_edit" && start.native_name == "write" && start.input.contains("+one"), "{start:?}");
    assert_eq!(play.asks()[0].always_label.as_deref(), Some("Allow edit * in this session"));
}

fn asked(play: &mut Play, id: &str, permission: &str) {
    let tool = json!({"messageID": "msg_1", "callID": "call_1"});
    let request = json!({"id": id, "sessionID": "ses_1", "permission": permission, "patterns": ["touch a"], "always": ["touch *"], "metadata": {}, "tool": tool});
    play.tell("permission.asked", request);
}

#[test]
fn always_holds_for_the_session_and_no_other() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    asked(&mut play, "per_1", "bash");
    asked(&mut play, "per_2", "bash");
    asked(&mut play, "per_3", "webfetch");
    let first = play.asks()[0].ask;
    play.answer_ask(first, Decision::AllowAlways);
    asked(&mut play, "per_4", "bash");
    assert_eq!(play.asks().len(), 3);
    let replies: Vec<_> = play.paths().into_iter().filter(|path| path.contains("/permission/")).map(str::to_owned).collect();
    assert_eq!(replies, ["POST /permission/per_1/reply", "POST /permission/per_2/reply", "POST /permission/per_4/reply"]);
    assert!(play.bodies("/permission/").iter().all(|body| *body == json!({"reply": "once"})));
    let second = play.asks()[1].ask;
    assert!(play.actions.contains(&Action::AskWithdrawn(second)));
    // Another session of the same directory is asked.
    play.start(StartTurn { session: 2, ..plain(2) }).answer("POST /session", 200, &session("ses_2")).answer("ses_2/prompt_async", 204, "");
    play.tell(
        "permission.asked",
        json!({"id": "per_5", "sessionID": "ses_2", "permission": "bash", "patterns": ["touch a"], "always": ["touch *"]}),
    );
    assert_eq!(play.asks().len(), 4);
    assert_eq!(play.asks()[3].session, 2);
}

#[test]
fn nobody_there_refuses_in_the_mildest_way() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    asked(&mut play, "per_1", "bash");
    let questions = json!([{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], "multiple": true}, {"question": "What?", "custom": false}]);
    play.tell("question.asked", json!({"id": "que_1", "sessionID": "ses_1", "questions": questions.clone()}));
    let (permission, question) = (play.asks()[0].ask, play.asks()[1].ask);
    let AskKind::Questions(found) = &play.asks()[1].kind else { panic!("no questions") };
    let forms: Vec<_> =
        found.iter().map(|question| (question.id.as_str(), question.options.len(), question.many, question.free_text)).collect();
    assert_eq!(forms, [("0", 2, true, true), ("1", 0, false, false)]);
    play.answer_ask(permission, Decision::Dismissed).answer_ask(question, Decision::Dismissed);
    assert_eq!(play.bodies("/permission/")[0]["reply"], "reject");
    assert!(play.bodies("/permission/")[0]["message"].as_str().unwrap().starts_with("Nobody"), "with words, so that the model goes on");
    assert_eq!(play.bodies("/question/"), [json!({"answers": [[], []]})]);
    play.tell("question.asked", json!({"id": "que_2", "sessionID": "ses_1", "questions": questions}));
    let last = play.asks()[2].ask;
    play.answer_ask(last, Decision::Deny(Some("ask me later".to_owned())));
    assert_eq!(play.bodies("que_2/reply"), [json!({"answers": [["ask me later"], ["ask me later"]]})]);
}

#[test]
fn an_ask_that_was_answered_elsewhere_is_withdrawn_and_a_late_answer_is_harmless() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    asked(&mut play, "per_1", "bash");
    let ask = play.asks()[0].ask;
    play.tell("permission.replied", json!({"sessionID": "ses_1", "requestID": "per_1", "reply": "once"}));
    assert_eq!(play.actions.last(), Some(&Action::AskWithdrawn(ask)));
    let before = play.actions.len();
    play.answer_ask(ask, Decision::AllowOnce);
    assert_eq!(play.actions.len(), before);
}

#[test]
fn an_interrupt_ends_the_turn_in_text_in_a_tool_and_in_an_ask() {
    for name in ["interrupt-text", "interrupt-tool", "interrupt-permission"] {
        let play = recorded(name);
        assert_eq!(play.outcomes()[0], &Outcome::Interrupted, "{name}");
        assert_eq!(play.paths().iter().filter(|path| path.ends_with("/abort")).count(), 1, "{name}");
    }
    let play = recorded("interrupt-text");
    // The late second word that it is idle ended nothing; the second turn was interrupted from elsewhere when it had said all.
    assert_eq!(shown(&play, false).last().map(String::as_str), Some("Alive after the interrupt."));
    assert_eq!(play.outcomes()[1], &Outcome::Interrupted);
    let play = recorded("interrupt-permission");
    assert!(play.actions.contains(&Action::AskWithdrawn(play.asks()[0].ask)));
    assert_eq!(ends(&play), [(ToolStatus::Cancelled, "Tool execution aborted")]);
    assert_eq!(ends(&recorded("interrupt-tool"))[0].0, ToolStatus::Cancelled);
}

#[test]
fn an_interrupt_while_starting_ends_the_turn_at_once_and_sends_nothing() {
    let mut play = Play::server();
    interrupt(play.start(plain(1)), 1);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
    play.finish();
    assert_eq!(play.paths(), ["GET /global/health"]);
    play.start(plain(2)).answer("POST /session", 200, &session("ses_1"));
    assert_eq!(play.paths().last(), Some(&"POST /session/ses_1/prompt_async"));
}

#[test]
fn an_interrupted_turn_ends_after_a_grace_and_a_prompt_that_begins_later_is_stopped() {
    let mut play = prompted(plain(1));
    interrupt(&mut play, 1).answer("abort", 200, "true").elapse(3900.0);
    assert_eq!(play.done().len(), 0);
    play.elapse(200.0);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
    busy(&mut play);
    assert_eq!(play.paths().iter().filter(|path| path.ends_with("/abort")).count(), 2);
}

#[test]
fn an_agent_that_goes_on_after_its_sub_agent_was_interrupted_is_interrupted_again() {
    let play = recorded("question-reject-sub-agent-interrupt");
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Interrupted]);
    assert_eq!(play.paths().iter().filter(|path| path.ends_with("/abort")).count(), 2);
    assert_eq!(play.bodies("/question/"), [json!({})], "a rejected question ends the turn");
    assert_eq!(answers(&play), [&QueryResult::Done], "the history was shortened");
    assert!(shown(&play, false).iter().all(|text| !text.contains("Here is the conversation")));
}

#[test]
fn a_sub_agent_is_a_tool_with_tools_in_it_and_its_text_is_not_the_answer() {
    let play = recorded("sub-agent");
    assert_eq!(shown(&play, false), ["parent done "]);
    let starts = play.events().into_iter().filter_map(|event| match event {
        EventKind::ToolStart(start) if start.input != "{}" => Some((start.kind.as_str(), start.parent.as_deref(), start.id.as_str())),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    let spawn = starts.iter().find(|(kind, ..)| *kind == "agent_spawn").unwrap();
    let bash = starts.iter().find(|(kind, ..)| *kind == "bash").unwrap();
    assert_eq!(bash.1, Some(spawn.2));
    // The turn may do everything, so its sub-agent is not asked about either.
    assert_eq!(play.asks().len(), 0);
    assert_eq!(play.bodies("/permission/"), [json!({"reply": "once"})]);
    let usage = play.done()[0].usage.unwrap();
    assert_eq!((usage.input, usage.context_used), (4 * 90, Some(120)), "two requests of each");
}

#[test]
fn a_sub_agent_below_the_highest_level_is_asked_about() {
    let play = recorded("question-reject-sub-agent-interrupt");
    let ask = play.asks()[1];
    assert_eq!((ask.turn, ask.title.as_str()), (2, "OpenCode asks to use bash: cp a1 cc"));
    let mut play = Play::load("sub-agent");
    play.start(plain(1)).until("permission.asked");
    let ask = play.asks()[0].ask;
    play.answer_ask(ask, Decision::DenyAndStop);
    assert_eq!(play.paths().last().map(|path| path.ends_with("/abort")), Some(true), "refusing the sub-agent alone would not end the turn");
}

#[test]
fn errors_end_the_turn_once_with_their_kind() {
    let play = recorded("errors");
    assert_eq!(failures(&play), [FailureKind::BadRequest, FailureKind::ModelNotFound]);
    assert!(matches!(&play.done()[0].outcome, Outcome::Failed(failure) if failure.message == "prompt is bad"));
    for (status, kind) in [(401, FailureKind::Authentication), (429, FailureKind::RateLimited), (500, FailureKind::Overloaded)] {
        let mut play = prompted(plain(1));
        let error = json!({"name": "APIError", "data": {"message": "no", "statusCode": status}});
        busy(&mut play).tell("session.error", json!({"sessionID": "ses_1", "error": error}));
        idle(idle(&mut play));
        assert_eq!(failures(&play), [kind]);
        assert!(play.start(plain(2)).answer("prompt_async", 204, "").done().len() == 1, "alive");
        idle(&mut play);
        assert_eq!(play.done().len(), 1, "a second word that it is idle is about the past");
    }
}

#[test]
fn an_error_without_a_word_that_it_is_idle_ends_the_turn_after_a_moment() {
    let mut play = prompted(plain(1));
    let error = json!({"name": "UnknownError", "data": {"message": "Agent not found: \"nope\"."}});
    play.tell("session.error", json!({"sessionID": "ses_1", "error": error})).elapse(1400.0);
    assert_eq!(play.done().len(), 0);
    play.elapse(200.0);
    assert_eq!(failures(&play), [FailureKind::BadRequest]);
}

#[test]
fn a_conversation_that_became_too_long_is_shortened_and_the_turn_goes_on() {
    let play = recorded("overflow");
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(shown(&play, false), ["no script "], "the summary is not part of the answer");
    assert!(play.events().contains(&&EventKind::Notice("OpenCode shortened the conversation".to_owned())));
}

#[test]
fn retries_are_told() {
    let play = recorded("retry");
    let retries = play.events().into_iter().filter_map(|event| match event {
        EventKind::Retry(failure) => Some((failure.kind, failure.message.as_str())),
        _ => None,
    });
    assert_eq!(
        retries.collect::<Vec<_>>(),
        [(FailureKind::Overloaded, "attempt 1: server boom"), (FailureKind::Overloaded, "attempt 2: server boom"),]
    );
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
}

#[test]
fn a_message_steered_into_a_turn_belongs_to_it() {
    let play = recorded("steer");
    assert!(play.actions.contains(&Action::Steered(Steered { message: 7, outcome: SteerOutcome::Injected })));
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(play.done()[0].text.as_deref(), Some("Steered: STEER please also say bananaplan finished"));
}

#[test]
fn a_message_steered_in_at_the_last_moment_is_waited_for() {
    let mut play = prompted(plain(1));
    says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "first"}));
    let parts = vec![Part::Text("and?".to_owned())];
    let steer = |delivery| Steer { session: 1, turn: 1, message: 7, parts: parts.clone(), delivery, fresh_id: String::new() };
    play.command(Command::Steer(steer(Delivery::Queue)));
    assert_eq!(play.actions.last(), Some(&Action::Steered(Steered { message: 7, outcome: SteerOutcome::NotNow })));
    play.command(Command::Steer(steer(Delivery::Steer)));
    idle(&mut play).answer("prompt_async", 204, "");
    assert_eq!(play.done().len(), 0);
    play.tell("message.updated", json!({"sessionID": "ses_1", "info": {"id": "msg_2", "role": "user"}}));
    play.tell("session.status", json!({"sessionID": "ses_1", "status": {"type": "busy"}}));
    play.tell("message.updated", json!({"sessionID": "ses_1", "info": {"id": "msg_3", "role": "assistant", "parentID": "msg_2"}}));
    let part = json!({"type": "text", "id": "prt_3", "messageID": "msg_3", "text": "second"});
    play.tell("message.part.updated", json!({"sessionID": "ses_1", "part": part}));
    assert_eq!(idle(&mut play).outcomes(), [&Outcome::Completed]);
    assert_eq!(shown(&play, false), ["first", "second"]);
}

#[test]
fn a_server_that_dies_loses_its_turns_and_the_next_one_starts_another() {
    let play = recorded("killed");
    let [TurnDone { outcome: Outcome::Lost(failure), .. }] = play.done()[..] else { panic!("{:?}", play.done()) };
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Crashed, "OpenCode's server was ended by signal 9"));
    let mut play = prompted(plain(1));
    play.exit(Exit::Code(1), "Error: out of file handles\n");
    assert!(
        matches!(&play.done()[0].outcome, Outcome::Lost(failure) if failure.message.ends_with("exit code 1: Error: out of file handles"))
    );
    play.start(plain(2));
    assert_eq!(play.actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count(), 2);
    play.input(aetheel_backend_sdk::wit::Input::Line(aetheel_backend_sdk::wit::Line {
        proc: play.proc.unwrap(),
        pipe: aetheel_backend_sdk::wit::Pipe::Stdout,
        text: "opencode server listening on http://127.0.0.1:5".to_owned(),
        truncated: false,
    }));
    // The same session, with its permissions set anew.
    assert_eq!(play.paths()[play.paths().len() - 2..], ["PATCH /session/ses_1", "POST /session/ses_1/prompt_async"]);
}

#[test]
fn a_server_that_cannot_be_started_fails_the_turn() {
    let mut play = Play::server();
    play.start(plain(1));
    let failed = aetheel_backend_sdk::wit::SpawnFailed { proc: play.proc.unwrap(), message: "no such program".to_owned(), not_found: true };
    play.input(aetheel_backend_sdk::wit::Input::SpawnFailed(failed));
    assert_eq!(failures(&play), [FailureKind::NotFound]);
}

#[test]
fn a_lost_stream_is_opened_again_and_what_was_missed_is_caught_up() {
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
    // A turn later it breaks without having said anything since.
    play.start(plain(2)).answer("prompt_async", 204, "").close_stream();
    assert!(matches!(play.outcomes()[1], Outcome::Lost(failure) if failure.kind == FailureKind::Protocol), "{:?}", play.outcomes());
    assert!(matches!(play.actions.last(), Some(Action::Stop(_))), "it is of no use any more");
}

#[test]
fn a_refused_prompt_fails_with_what_the_server_said() {
    for (status, body, kind) in [
        (400, r#"{"name":"BadRequest","data":{"message":"Expected array","kind":"Payload"}}"#, FailureKind::BadRequest),
        (401, "", FailureKind::Authentication),
        (404, r#"{"name":"NotFoundError","data":{"message":"Session not found: ses_1"}}"#, FailureKind::SessionUnknown),
        (500, r#"{"name":"UnknownError","data":{"message":"Unexpected server error."}}"#, FailureKind::Other),
    ] {
        let mut play = Play::server();
        play.start(plain(1)).finish().answer("POST /session", 200, &session("ses_1")).answer("prompt_async", status, body);
        assert_eq!(failures(&play), [kind], "{status}");
    }
}

#[test]
fn questions_of_the_host_are_answered_by_the_server() {
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
    assert_eq!((sessions[0].title.as_deref(), sessions[0].updated.as_deref()), (Some("Nine"), Some("2026-11-21T20:59:17Z")));
    query(&mut play, 3, QueryKind::DeleteSession("ses_9".to_owned())).answer("DELETE /session/ses_9", 200, "true");
    assert_eq!(answers(&play)[2], &QueryResult::Done);
    for (number, kind) in [(4, QueryKind::Raw("{}".to_owned())), (5, QueryKind::Rename("x".to_owned())), (6, QueryKind::Compact)] {
        query(&mut play, number, kind);
        assert!(matches!(answers(&play).last(), Some(QueryResult::Failed(_))));
    }
    let mut play = prompted(plain(1));
    query(&mut play, 1, QueryKind::Rename("renamed".to_owned()));
    assert_eq!(play.bodies("PATCH /session/ses_1"), [json!({"title": "renamed"})]);
}

#[test]
fn models_are_listed_by_a_run_that_shows_no_keys() {
    let mut play = Play::server();
    query(&mut play, 1, QueryKind::Models);
    let Some(Action::Spawn(spawn)) = play.actions.last().cloned() else { panic!("{:?}", play.actions) };
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
    let exited = aetheel_backend_sdk::wit::Exited { proc: spawn.proc, how: Exit::Code(0), stderr_tail: String::new() };
    play.input(aetheel_backend_sdk::wit::Input::Exited(exited));
    let QueryResult::Models(models) = answers(&play)[0] else { panic!("{:?}", answers(&play)) };
    assert_eq!(models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["opencode/big-pickle", "mock/mock-model"]);
}

#[test]
fn an_idle_link_moves_to_another_instance_and_goes_on() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    assert_eq!(play.saved(), None, "not in the middle of a turn");
    asked(&mut play, "per_1", "bash");
    let ask = play.asks()[0].ask;
    play.answer_ask(ask, Decision::AllowAlways).answer("/permission/", 200, "true");
    idle(says(&mut play, "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    let before = play.actions.len();
    play.reload().start(plain(2)).answer("prompt_async", 204, "");
    assert_eq!(play.actions.len(), before + 1, "nothing but the prompt: {:?}", &play.actions[before..]);
    busy(&mut play);
    asked(&mut play, "per_2", "bash");
    assert_eq!(play.asks().len(), 1, "what is allowed in the session stays allowed");
    idle(says(&mut play, "msg_2", json!({"type": "text", "id": "prt_2", "text": "ok"})));
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
}

#[test]
fn shutting_down_tells_the_server_to_leave() {
    let mut play = recorded("hello");
    assert!(play.proc.is_none(), "the recording ends with it");
    let before = play.actions.len();
    play.command(Command::Shutdown);
    assert_eq!(play.actions.len(), before);
    let mut play = prompted(plain(1));
    idle(says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    play.command(Command::Shutdown);
    assert!(matches!(play.actions.last(), Some(Action::Stop(stop)) if Some(stop.proc) == play.proc));
}

#[test]
fn events_of_nobody_and_after_the_end_do_no_harm() {
    let mut play = prompted(plain(1));
    idle(says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    let before = play.actions.len();
    says(&mut play, "msg_1", json!({"type": "text", "id": "prt_1", "text": "late"}));
    play.tell("permission.asked", json!({"id": "per_1", "sessionID": "ses_1", "permission": "bash"}));
    play.tell("session.error", json!({"sessionID": "ses_other", "error": {"name": "UnknownError", "data": {"message": "x"}}}));
    play.tell("message.updated", json!({"sessionID": "ses_other", "info": {"id": "m", "role": "assistant"}}));
    idle(&mut play);
    assert_eq!(play.actions.len(), before, "{:?}", &play.actions[before..]);
}

#[test]
fn what_is_new_is_told_with_its_name() {
    let mut play = prompted(plain(1));
    says(busy(&mut play), "msg_1", json!({"type": "hologram", "id": "prt_1"}));
    play.tell("session.aurora", json!({"sessionID": "ses_1"})).tell("aurora", json!({})).event("no JSON".to_owned());
    let found = unrecognised(&play).into_iter().map(|event| match event {
        EventKind::Unrecognised(unknown) => unknown.what.as_str(),
        _ => unreachable!(),
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [r#"message part "hologram""#, r#"server event "session.aurora""#, r#"server event "aurora""#, "server event without a type"]
    );
}
