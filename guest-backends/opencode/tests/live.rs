//! Recorded dialogues with `opencode serve` 1.18.33. All dialogues are compared with their expected
//! actions, and special cases have their own tests.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod play;

use aetheel_backend_sdk::fixture::host_tool;
use aetheel_backend_sdk::wit::{
    Action, Attachment, Command, Decision, EventKind, FailureKind, Outcome, Part, PlanStatus,
    Settings, StartTurn, Value as Argument,
};
use play::said::*;
use play::{Play, turn};
use serde_json::{Value, json};

#[test]
fn every_recorded_dialogue_matches_its_golden_actions() {
    for name in RECORDED {
        recorded(name).check();
    }
}

#[test]
fn no_output_of_a_recorded_dialogue_is_unrecognised() {
    for name in RECORDED {
        assert_eq!(unrecognised(&recorded(name)), Vec::<&_>::new(), "{name}");
    }
}

#[test]
fn one_server_is_started_and_its_health_and_events_precede_all_requests() {
    let play = recorded("two-sessions");
    assert_eq!(play.actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count(), 1);
    let Action::Spawn(spawn) = &play.actions[0] else { panic!("{:?}", play.actions[0]) };
    assert!(spawn.listens && spawn.turn.is_none());
    assert_eq!(spawn.basic_auth.as_ref().unwrap().secret, "server-password");
    let password = spawn
        .environment
        .iter()
        .find(|variable| variable.name == "OPENCODE_SERVER_PASSWORD")
        .unwrap();
    assert_eq!(password.value, Argument::Secret("server-password".to_owned()));
    assert_eq!(play.paths()[..2], ["GET /global/health", "POST /session"]);
    assert!(matches!(&play.actions[2], Action::OpenStream(open) if open.path == "/global/event"));
}

#[test]
fn text_and_thinking_are_streamed_without_the_prompt() {
    let play = recorded("hello");
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
    assert_eq!(play.done()[0].text.as_deref(), Some("Hello there from the mock model."));
    assert_eq!(shown(&play, true)[0], "Let me think about it.");
    assert!(
        shown(&play, false)[0].starts_with("Hello there from the mock model."),
        "{:?}",
        shown(&play, false)
    );
    let usage = play.done()[0].usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.output, usage.reasoning, usage.cached, usage.context_used),
        (90, 20, 5, 10, Some(120))
    );
    assert!((usage.cost_usd.unwrap() - 0.000_573).abs() < 1e-9);
    let pieces = play
        .events()
        .iter()
        .filter(|event| matches!(event, EventKind::Text(text) if !text.replace))
        .count();
    assert!(pieces > 10, "it arrived in {pieces} pieces");
}

#[test]
fn settings_of_a_later_turn_are_applied() {
    let play = recorded("hello");
    let prompts = play.bodies("prompt_async");
    assert_eq!((&prompts[0]["agent"], &prompts[0]["variant"]), (&json!("build"), &Value::Null));
    assert_eq!((&prompts[1]["agent"], &prompts[1]["variant"]), (&json!("plan"), &json!("high")));
    // The permissions for planning are set before the prompt.
    let rules = &play.bodies("PATCH")[0]["permission"];
    assert!(
        rules
            .as_array()
            .unwrap()
            .contains(&json!({"permission": "edit", "pattern": "*", "action": "deny"})),
        "{rules}"
    );
    assert_eq!(
        play.bodies("POST /session")[0],
        json!({"permission": [
            {"permission": "*", "pattern": "*", "action": "allow"},
            {"permission": "aetheel-*", "pattern": "*", "action": "deny"},
        ]})
    );
}

#[test]
fn prompts_contain_the_model_the_system_prompt_and_images() {
    let image = Attachment {
        blob: 3,
        name: "a.png".to_owned(),
        media_type: "image/png".to_owned(),
        size: 9,
        path: "/f/a.png".to_owned(),
    };
    let file = Attachment {
        media_type: "text/plain".to_owned(),
        name: "b.txt".to_owned(),
        path: "/f/b.txt".to_owned(),
        ..image.clone()
    };
    let settings = Settings {
        model: Some("a/b/c".to_owned()),
        system_prompt: Some("Be \"kind\".".to_owned()),
        ..turn(1, "").settings
    };
    let parts =
        vec![Part::Text("look\n\"there\"".to_owned()), Part::Image(image), Part::File(file)];
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
fn the_default_model_is_restored_after_another_model() {
    let mut play = prompted(turn(1, "one"));
    let info = json!({"id": "ses_1", "title": "T", "model": {"id": "std", "providerID": "house"}});
    busy(&mut play).tell("session.updated", json!({"sessionID": "ses_1", "info": info}));
    idle(says(&mut play, "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    for (number, model) in [(2, Some("x/y")), (3, None)] {
        let settings = Settings { model: model.map(str::to_owned), ..turn(number, "").settings };
        play.start(StartTurn { settings, ..turn(number, "more") }).answer("prompt_async", 204, "");
        idle(says(
            busy(&mut play),
            &format!("msg_{number}"),
            json!({"type": "text", "id": format!("prt_{number}"), "text": "ok"}),
        ));
    }
    let models: Vec<_> =
        play.bodies("prompt_async").iter().map(|body| body["model"].clone()).collect();
    assert_eq!(
        models,
        [
            Value::Null,
            json!({"providerID": "x", "modelID": "y"}),
            json!({"providerID": "house", "modelID": "std"})
        ]
    );
    assert!(play.events().contains(&&EventKind::Title("T".to_owned())));
}

#[test]
fn invalid_prompts_models_and_session_ids_are_refused_before_the_start() {
    let settings = Settings { model: Some("gpt".to_owned()), ..turn(1, "").settings };
    for (start, kind) in [
        (turn(1, " \n"), FailureKind::BadRequest),
        (StartTurn { settings, ..turn(1, "hi") }, FailureKind::ModelNotFound),
        (
            StartTurn { native_id: Some("../x".to_owned()), ..turn(1, "hi") },
            FailureKind::SessionUnknown,
        ),
    ] {
        let mut play = Play::server();
        play.start(start);
        assert_eq!(failures(&play), [kind]);
        assert_eq!(play.actions.len(), 1);
    }
}

#[test]
fn an_unknown_session_fails_the_turn_and_the_next_turn_creates_a_new_session() {
    for fork in [false, true] {
        let mut play = Play::server();
        play.start(StartTurn { native_id: Some("ses_unknown0".to_owned()), fork, ..plain(1) })
            .finish();
        if fork {
            let body =
                r#"{"name":"NotFoundError","data":{"message":"Session not found: ses_unknown0"}}"#;
            play.answer("/fork", 404, body);
        }
        assert_eq!(failures(&play), [FailureKind::SessionUnknown]);
        play.start(plain(2)).answer("POST /session", 200, &session("ses_2"));
        assert_eq!(play.paths().last(), Some(&"POST /session/ses_2/prompt_async"));
    }
}

#[test]
fn resumed_and_copied_sessions_get_permissions_before_the_prompt() {
    let play = recorded("resume-fork");
    let paths = play.paths();
    let of = |text: &str| {
        paths
            .iter()
            .position(|path| path.contains(text))
            .unwrap_or_else(|| panic!("no {text} in {paths:?}"))
    };
    assert!(
        of("PATCH /session/ses_e00199e71")
            < of("POST /session/ses_e00199e71ffeVhPfn6SHYhpJ8W/prompt_async")
    );
    assert!(
        of("/fork") < of("PATCH /session/ses_e0017d351")
            && of("PATCH /session/ses_e0017d351")
                < of("POST /session/ses_e0017d351ffeEcaGIHjFamMsYb/prompt_async")
    );
    let ready = play.actions.iter().filter_map(|action| match action {
        Action::SessionReady(ready) => Some((ready.session, ready.native_id.as_str())),
        _ => None,
    });
    assert_eq!(
        ready.collect::<Vec<_>>(),
        [(1, "ses_e00199e71ffeVhPfn6SHYhpJ8W"), (2, "ses_e0017d351ffeEcaGIHjFamMsYb")]
    );
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
    // Copied messages are neither reported nor counted again.
    let usage: Vec<_> = play.done().iter().map(|done| done.usage.clone().unwrap().input).collect();
    assert_eq!(usage, [90, 90]);
}

#[test]
fn two_sessions_in_two_directories_do_not_mix() {
    let play = recorded("two-sessions");
    let text = |session: u32| {
        play.done().iter().find(|done| done.session == session).unwrap().text.clone().unwrap()
    };
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
        Action::Http(request) if request.path.contains("prompt_async") => {
            request.path.split_once("directory=").map(|(_, value)| value)
        }
        _ => None,
    });
    assert_eq!(directories.collect::<Vec<_>>(), ["%2Fsrv%2Fproj", "%2Fsrv%2Fother"]);
}

#[test]
fn each_session_gets_an_mcp_server_with_the_tools_of_the_host() {
    let with_tools = |number| StartTurn { tools: vec![host_tool("post")], ..turn(number, "go") };
    let mut play = Play::server();
    play.start(with_tools(1)).finish().answer("POST /session", 200, &session("ses_1"));
    assert_eq!(play.paths().last().copied(), Some("POST /mcp"));
    let expected = json!({"name": "aetheel-1", "config": {
        "type": "remote", "url": "<tool server of session 1>", "oauth": false, "timeout": 86_400_000}});
    assert_eq!(play.bodies("POST /mcp"), [expected]);
    let failed = r#"{"aetheel-1":{"status":"failed","error":"no route"}}"#;
    play.answer("POST /mcp", 200, failed).answer("prompt_async", 204, "");
    let warned = |action: &Action| matches!(action, Action::Diagnostic(said) if said.text.contains("no route"));
    assert!(play.actions.iter().any(warned), "the turn begins without the tools");
    idle(says(busy(&mut play), "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    let connected = r#"{"aetheel-1":{"status":"connected"}}"#;
    play.start(with_tools(2)).answer("POST /mcp", 200, connected).answer("prompt_async", 204, "");
    idle(says(busy(&mut play), "msg_2", json!({"type": "text", "id": "prt_2", "text": "ok"})));
    play.start(with_tools(3)).answer("prompt_async", 204, "");
    assert_eq!(play.bodies("POST /mcp").len(), 2, "it is added until it is connected");
    idle(says(busy(&mut play), "msg_3", json!({"type": "text", "id": "prt_3", "text": "ok"})));
    play.command(Command::CloseSession(1));
    assert_eq!(play.paths().last().copied(), Some("POST /mcp/aetheel-1/disconnect"));
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
        EventKind::ToolEnd(end) => end
            .diffs
            .first()
            .map(|diff| (diff.path.as_str(), diff.unified.is_some(), diff.new_text.is_some())),
        _ => None,
    });
    assert_eq!(
        diffs.collect::<Vec<_>>(),
        [("/srv/proj/b.txt", false, true), ("/srv/proj/README.md", true, false)]
    );
    let plans = play.events().into_iter().filter_map(|event| match event {
        EventKind::Plan(plan) => Some((plan[0].text.as_str(), plan[0].status)),
        _ => None,
    });
    assert_eq!(plans.collect::<Vec<_>>(), [("one", PlanStatus::Active)]);
    assert_eq!(play.done()[0].usage.clone().unwrap().input, 6 * 90, "six model requests");
}

#[test]
fn another_instance_continues_with_an_idle_link() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    assert_eq!(play.saved(), None, "no state can be saved during a turn");
    asked(&mut play, "per_1", "bash");
    let ask = play.asks()[0].ask;
    play.answer_ask(ask, Decision::AllowAlways).answer("/permission/", 200, "true");
    idle(says(&mut play, "msg_1", json!({"type": "text", "id": "prt_1", "text": "ok"})));
    let before = play.actions.len();
    play.reload().start(plain(2)).answer("prompt_async", 204, "");
    assert_eq!(
        play.actions.len(),
        before + 1,
        "only the prompt is sent: {:?}",
        &play.actions[before..]
    );
    busy(&mut play);
    asked(&mut play, "per_2", "bash");
    assert_eq!(play.asks().len(), 1, "permissions for the session are kept");
    idle(says(&mut play, "msg_2", json!({"type": "text", "id": "prt_2", "text": "ok"})));
    assert_eq!(play.outcomes(), [&Outcome::Completed, &Outcome::Completed]);
}

#[test]
fn unknown_output_is_reported_with_its_name() {
    let mut play = prompted(plain(1));
    says(busy(&mut play), "msg_1", json!({"type": "hologram", "id": "prt_1"}));
    play.tell("session.aurora", json!({"sessionID": "ses_1"}))
        .tell("aurora", json!({}))
        .event("no JSON".to_owned());
    let found = unrecognised(&play).into_iter().map(|unknown| unknown.what.as_str());
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            r#"message part "hologram""#,
            r#"server event "session.aurora""#,
            r#"server event "aurora""#,
            "server event without a type"
        ]
    );
}

#[test]
fn output_whose_beginning_was_cut_replaces_the_earlier_output() {
    let mut play = prompted(plain(1));
    busy(&mut play);
    for output in ["one\n", "one\ntwo\n", "one\ntwo\n", "two\nthree\n"] {
        let state = json!({"status": "running", "input": {"command": "make"}, "metadata": {"output": output}});
        let part =
            json!({"type": "tool", "id": "prt_1", "callID": "c1", "tool": "bash", "state": state});
        says(&mut play, "msg_1", part);
    }
    let outputs = play.events().into_iter().filter_map(|event| match event {
        EventKind::ToolOutput(output) => Some((output.text.as_str(), output.replace)),
        _ => None,
    });
    let expected = [("one\n", false), ("two\n", false), ("two\nthree\n", true)];
    assert_eq!(outputs.collect::<Vec<_>>(), expected);
}
