//! Droid's questions. Each request gets an answer, and never an error.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod play;

use aetheel_backend_sdk::fixture::{asks, host_tool};
use aetheel_backend_sdk::wit::{
    Action, Answer, AskKind, Chunk, Command, Decision, EventKind, Mode, Outcome, Safety, StartTurn,
    ToolStatus, TurnRef,
};
use serde_json::{Value, json};

use play::{Live, events, live, note, notices, play, tool_ends, turn};

fn answer(play: &mut Live, ask: u32, decision: Decision) -> &mut Live {
    play.command(Command::Answer(Answer { ask, decision }))
}

/// Returns the results of Droid's requests, in order.
fn replies(play: &Live) -> Vec<Value> {
    for line in &play.written {
        assert!(!line.contains(r#""error""#), "Droid hangs after an error: {line}");
    }
    play.written_with(r#""type":"response""#)
        .into_iter()
        .map(|line| line["result"].clone())
        .collect()
}

/// Plays a dialogue up to its first question.
fn asked(name: &str) -> Live {
    let mut play = play(name);
    play.start(live("Go on")).until(|action| matches!(action, Action::Ask(_)));
    play
}

#[test]
fn a_permission_request_describes_the_tool_use_and_is_granted_once() {
    let mut play = asked("live-allow-once");
    {
        let asks = asks(&play.actions);
        assert_eq!(asks[0].title, "Execute: touch perm_proceed_once.txt");
        let AskKind::Permission(tool) = &asks[0].kind else { panic!("{asks:?}") };
        assert_eq!(
            (tool.kind.as_str(), tool.target.as_deref()),
            ("bash", Some("touch perm_proceed_once.txt"))
        );
        assert_eq!(
            asks[0].always_label.as_deref(),
            Some("Yes, and always allow medium impact commands (all commands that are reversible)")
        );
    }
    answer(&mut play, 1, Decision::AllowOnce).until(|action| matches!(action, Action::Ask(_)));
    answer(&mut play, 2, Decision::AllowOnce).finish().check();
    assert_eq!(
        replies(&play),
        [json!({"selectedOption": "proceed_once"}), json!({"selectedOption": "proceed_once"})]
    );
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(tool_ends(&play.actions, 1), [ToolStatus::Ok, ToolStatus::Ok]);
}

#[test]
fn always_selects_droids_option_and_applies_to_later_turns() {
    let mut play = asked("live-allow-always");
    answer(&mut play, 1, Decision::AllowAlways).finish().check();
    assert_eq!(replies(&play), [json!({"selectedOption": "proceed_always"})]);
    assert_eq!(asks(&play.actions).len(), 1, "the second command needs no question");
    let mut play = asked("live-allow-always");
    answer(&mut play, 1, Decision::AllowAlways)
        .until(|action| matches!(action, Action::TurnDone(_)));
    play.start(turn(2, "more"));
    assert_eq!(
        play.written_with("update_session_settings").len(),
        0,
        "the decision for the session is kept"
    );
}

#[test]
fn a_lower_safety_level_revokes_always_decisions() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until(|action| matches!(action, Action::TurnDone(_)));
    let mut second = turn(2, "Write");
    second.settings.safety = Safety::Edit;
    let request = json!({"type": "request", "id": "x", "method": "droid.request_permission", "params": {
        "toolUses": [], "options": [{"value": "proceed_always", "label": "Always"}]}});
    play.cut().start(second).say(&request.to_string());
    answer(&mut play, 1, Decision::AllowAlways);
    play.say(&note(&json!({"type": "agent_turn_completed", "reason": "completed"})));
    play.start(turn(3, "more"));
    assert_eq!(
        play.written_with("update_session_settings")[0]["params"],
        json!({"autonomyLevel": "off"})
    );
    assert_eq!(
        play.written_with("add_user_message").len(),
        2,
        "the prompt waits until the level is applied"
    );
}

#[test]
fn tools_of_the_host_are_offered_and_allowed_without_asking() {
    let with_tools = |prompt| StartTurn { tools: vec![host_tool("post")], ..live(prompt) };
    let mut play = play("live-hello");
    let mut first = with_tools("Hello");
    first.settings.allowed_tools = vec!["Read".to_owned()];
    play.start(first).until(|action| matches!(action, Action::TurnDone(_)));
    let put = play.actions.iter().find_map(|action| match action {
        Action::PutFile(file) => Some(&file.body[..]),
        _ => None,
    });
    let Some([Chunk::Text(before), Chunk::ToolServer(1), Chunk::Text(after)]) = put else {
        panic!("{put:?}")
    };
    assert_eq!(
        format!("{before}ADDRESS{after}"),
        r#"{"mcp":{"mcpServers":{"aetheel":{"type":"http","timeout":86400000,"url":"ADDRESS"}}}}"#
    );
    let params = &play.written_with("initialize_session")[0]["params"];
    assert_eq!(params["restrictToolIds"], json!(["Read", "aetheel___post"]));
    let mut second = StartTurn { tools: vec![host_tool("post")], ..turn(2, "more") };
    second.settings.allowed_tools = vec!["Read".to_owned()];
    play.cut().start(second);
    for (id, names, asked) in
        [("a", &["aetheel___post"][..], 0), ("b", &["aetheel___post", "Execute"], 1), ("c", &[], 2)]
    {
        let uses = names
            .iter()
            .map(|name| json!({"toolUse": {"id": id, "name": name, "input": {}}, "details": {}}));
        let params = json!({"toolUses": uses.collect::<Vec<_>>(), "options": [{"value": "proceed_once", "label": "Yes"}]});
        play.say(&json!({"type": "request", "id": id, "method": "droid.request_permission", "params": params}).to_string());
        assert_eq!(asks(&play.actions).len(), asked, "{names:?}");
    }
    assert_eq!(replies(&play), [json!({"selectedOption": "proceed_once"})]);
}

#[test]
fn without_an_option_for_always_only_this_use_is_allowed() {
    let mut play = asked("live-allow-once");
    play.cut().say(
        &json!({"type": "request", "id": "x", "method": "droid.request_permission", "params": {
            "toolUses": [], "options": [{"value": "proceed_once", "label": "Yes"}, {"value": "cancel", "label": "No"}]}})
        .to_string(),
    );
    assert_eq!(asks(&play.actions)[1].always_label, None);
    answer(&mut play, 2, Decision::AllowAlways);
    assert_eq!(replies(&play), [json!({"selectedOption": "proceed_once"})]);
}

#[test]
fn a_refusal_ends_the_turn_with_a_notice() {
    for (decision, reply, outcome, notice) in [
        (Decision::Deny(None), json!({"selectedOption": "cancel"}), Outcome::Completed, true),
        (
            Decision::Deny(Some("not that file".to_owned())),
            json!({"selectedOption": "cancel", "comment": "not that file"}),
            Outcome::Completed,
            true,
        ),
        (Decision::Dismissed, json!({"selectedOption": "cancel"}), Outcome::Completed, true),
        (Decision::DenyAndStop, json!({"selectedOption": "cancel"}), Outcome::Interrupted, false),
    ] {
        let mut play = asked("live-deny");
        answer(&mut play, 1, decision.clone()).finish();
        assert_eq!(replies(&play), [reply]);
        assert_eq!(play.outcomes(), [&outcome], "{decision:?}");
        assert_eq!(!notices(&play.actions, 1).is_empty(), notice, "{decision:?}");
        assert_eq!(tool_ends(&play.actions, 1), [ToolStatus::Denied], "{decision:?}");
        if decision == Decision::DenyAndStop {
            play.check();
        }
    }
}

#[test]
fn several_tool_uses_in_one_request_are_shown_in_one_question() {
    let mut play = asked("live-parallel-permission");
    {
        let asks = asks(&play.actions);
        assert_eq!(asks[0].title, "Execute: echo a (and 1 more)");
        let AskKind::Permission(tool) = &asks[0].kind else { panic!("{asks:?}") };
        assert_eq!(tool.target.as_deref(), Some("echo a\necho a"));
        assert_eq!(
            serde_json::from_str::<Value>(&tool.input).unwrap().as_array().unwrap().len(),
            2
        );
    }
    answer(&mut play, 1, Decision::AllowOnce).finish().check();
    assert_eq!(replies(&play).len(), 1);
    assert_eq!(tool_ends(&play.actions, 1), [ToolStatus::Ok, ToolStatus::Ok]);
}

#[test]
fn the_level_edit_allows_edits_in_the_working_directory() {
    let mut play = play("live-edit-inside");
    let mut first = live("Write");
    first.settings.safety = Safety::Edit;
    play.start(first.clone()).until(|action| matches!(action, Action::TurnDone(_)));
    assert_eq!(asks(&play.actions).len(), 0);
    assert_eq!(replies(&play), [json!({"selectedOption": "proceed_once"})]);
    let diffs: Vec<_> = events(&play.actions, 1)
        .into_iter()
        .filter_map(
            |kind| if let EventKind::ToolEnd(end) = kind { Some(end.diffs.clone()) } else { None },
        )
        .flatten()
        .collect();
    assert_eq!(
        (diffs[0].path.as_str(), diffs[0].new_text.as_deref()),
        ("/srv/proj/new.txt", Some("one\ntwo"))
    );
    first.turn = 2;
    play.start(first).until(
        |action| matches!(action, Action::Ask(ask) if ask.title == "Create: /srv/other/new.txt"),
    );
    answer(&mut play, 1, Decision::AllowOnce).finish().check();
    assert_eq!(replies(&play).len(), 2);
}

#[test]
fn the_level_edit_allows_nothing_else() {
    let ask = |kind: &str, details: Value, name: &str| {
        json!({"type": "request", "id": "x", "method": "droid.request_permission", "params": {
            "toolUses": [{"toolUse": {"id": "t", "name": name, "input": {}}, "confirmationType": kind, "details": details}],
            "options": []}})
        .to_string()
    };
    for (allowed, line) in [
        (true, ask("edit", json!({"filePath": "/srv/proj/src/a.rs"}), "Edit")),
        (true, ask("create", json!({"filePath": "a.rs"}), "Create")),
        (false, ask("edit", json!({"filePath": "/srv/proj/../secret"}), "Edit")),
        (false, ask("edit", json!({"filePath": "/srv/project2/a.rs"}), "Edit")),
        (false, ask("edit", json!({"filePath": "/srv/proj"}), "Edit")),
        (false, ask("edit", json!({"filePath": "~/.ssh/config"}), "Edit")),
        (
            false,
            ask(
                "apply_patch",
                json!({"filePath": "/srv/proj/a", "moveTo": "/etc/a"}),
                "ApplyPatch",
            ),
        ),
        (
            false,
            ask(
                "exec",
                json!({"fullCommand": "touch /srv/proj/a", "filePath": "/srv/proj/a"}),
                "Execute",
            ),
        ),
        (false, ask("mcp_tool", json!({"filePath": "/srv/proj/a"}), "x___y")),
        (false, ask("edit", json!({}), "Edit")),
    ] {
        for (safety, mode) in [
            (Safety::Edit, Mode::Build),
            (Safety::Default, Mode::Build),
            (Safety::Edit, Mode::Plan),
        ] {
            let mut play = play("live-hello");
            let mut start = live("Hello");
            (start.settings.safety, start.settings.mode) = (safety, mode);
            play.start(start).until_agent(r#""sessionId""#).cut();
            if mode == Mode::Plan {
                let id = play.id_of("droid.update_session_settings").unwrap();
                play.say(&format!(r#"{{"type":"response","id":{id},"result":{{}}}}"#));
            }
            play.say(&line);
            let expected = allowed && (safety, mode) == (Safety::Edit, Mode::Build);
            assert_eq!(
                (replies(&play).len(), asks(&play.actions).len()),
                (usize::from(expected), usize::from(!expected)),
                "{line}"
            );
        }
    }
}

#[test]
fn edits_are_reported_with_diffs() {
    let mut play = asked("live-create-edit");
    answer(&mut play, 1, Decision::AllowOnce).until(|action| matches!(action, Action::Ask(_)));
    let proposed: Vec<_> = asks(&play.actions).iter().map(|ask| ask.diffs.clone()).collect();
    assert_eq!(proposed[0][0].new_text.as_deref(), Some("one\ntwo"));
    let edit = &proposed[1][0];
    assert_eq!(
        (edit.path.as_str(), edit.old_text.as_deref(), edit.new_text.as_deref()),
        ("/srv/proj/README.md", Some("hello"), Some("goodbye"))
    );
    answer(&mut play, 2, Decision::AllowOnce).finish().check();
    let diffs: Vec<_> = events(&play.actions, 1)
        .into_iter()
        .filter_map(
            |kind| if let EventKind::ToolEnd(end) = kind { Some(end.diffs.clone()) } else { None },
        )
        .flatten()
        .collect();
    assert_eq!(diffs.len(), 2);
    assert_eq!(diffs[1].unified.as_deref(), Some("@@ -1,2 +1,2 @@\n # demo\n-hello\n+goodbye\n"));
}

#[test]
fn a_plan_is_submitted_for_approval() {
    let mut play = play("live-plan-approved");
    let mut start = live("Plan");
    start.settings.mode = Mode::Plan;
    play.start(start).until(|action| matches!(action, Action::Ask(_)));
    assert!(
        matches!(&asks(&play.actions)[0].kind, AskKind::PlanApproval(plan) if plan == "1. do it")
    );
    assert_eq!(asks(&play.actions)[0].title, "Plan");
    answer(&mut play, 1, Decision::AllowOnce).finish().check();
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert!(
        events(&play.actions, 1)
            .iter()
            .any(|kind| matches!(kind, EventKind::Mode(mode) if mode == "build"))
    );
}

#[test]
fn the_planning_mode_is_restored_after_an_approved_plan() {
    let mut play = play("live-plan-approved");
    let mut start = live("Plan");
    start.settings.mode = Mode::Plan;
    play.start(start.clone()).until(|action| matches!(action, Action::Ask(_)));
    answer(&mut play, 1, Decision::AllowOnce).until(|action| matches!(action, Action::TurnDone(_)));
    start.turn = 2;
    play.start(start);
    assert_eq!(
        play.written_with("update_session_settings")[0]["params"],
        json!({"autonomyLevel": "off", "interactionMode": "spec"})
    );
}

#[test]
fn a_refused_plan_ends_the_turn() {
    let mut play = play("live-plan-denied");
    let mut start = live("Plan");
    start.settings.mode = Mode::Plan;
    play.start(start).until(|action| matches!(action, Action::Ask(_)));
    answer(&mut play, 1, Decision::Deny(Some("shorter".to_owned()))).finish().check();
    assert_eq!(replies(&play), [json!({"selectedOption": "cancel", "comment": "shorter"})]);
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(tool_ends(&play.actions, 1), [ToolStatus::Denied]);
}

#[test]
fn every_question_of_a_request_gets_an_answer() {
    let mut play = asked("live-questions-answered");
    {
        let asks = asks(&play.actions);
        let AskKind::Questions(questions) = &asks[0].kind else { panic!("{asks:?}") };
        assert_eq!(
            (questions[0].id.as_str(), questions[0].text.as_str(), questions[0].many),
            ("1", "Which?", true)
        );
        assert_eq!(
            (
                questions[1]
                    .options
                    .iter()
                    .map(|option| option.label.as_str())
                    .collect::<Vec<_>>()
                    .join(" "),
                questions[1].many,
                questions[1].free_text
            ),
            ("L M".to_owned(), false, true)
        );
    }
    let given = vec![("1".to_owned(), vec!["Red".to_owned(), "Blue".to_owned()])];
    answer(&mut play, 1, Decision::Answers(given)).finish().check();
    let answers = json!([{"index": 1, "question": "Which?", "answer": "Red, Blue"}, {"index": 2, "question": "Size?", "answer": "(no answer)"}]);
    assert_eq!(replies(&play), [json!({"cancelled": false, "answers": answers})]);
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    let mut one = asked("live-question");
    answer(&mut one, 1, Decision::Answers(vec![("1".to_owned(), vec!["Blue".to_owned()])]))
        .finish()
        .check();
    assert_eq!(
        replies(&one)[0]["answers"],
        json!([{"index": 1, "question": "Which colour?", "answer": "Blue"}])
    );
}

#[test]
fn dismissed_questions_are_cancelled() {
    let mut play = asked("live-questions-dismissed");
    answer(&mut play, 1, Decision::Dismissed).finish().check();
    assert_eq!(replies(&play), [json!({"cancelled": true, "answers": []})]);
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert_eq!(notices(&play.actions, 1).len(), 1);
}

#[test]
fn an_interrupt_withdraws_the_question_and_a_late_answer_is_ignored() {
    let mut play = asked("live-interrupt-ask");
    play.command(Command::Interrupt(TurnRef { session: 1, turn: 1 }))
        .until_agent("permission_resolved");
    assert!(play.actions.contains(&Action::AskWithdrawn(1)));
    answer(&mut play, 1, Decision::AllowOnce).finish().check();
    assert_eq!(replies(&play), [] as [Value; 0]);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
    assert_eq!(tool_ends(&play.actions, 1), [ToolStatus::Cancelled]);
    let mut play = asked("live-questions-interrupted");
    play.command(Command::Interrupt(TurnRef { session: 1, turn: 1 })).finish().check();
    answer(&mut play, 1, Decision::Dismissed);
    assert_eq!(replies(&play), [] as [Value; 0]);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
}

#[test]
fn unknown_requests_and_requests_between_turns_are_refused_without_an_error() {
    let request =
        json!({"type": "request", "id": "x", "method": "droid.launch_rocket", "params": {}})
            .to_string();
    let permission =
        json!({"type": "request", "id": "y", "method": "droid.request_permission", "params": {}})
            .to_string();
    let mut play = play("live-hello");
    play.start(live("Hello")).until(|action| matches!(action, Action::TurnDone(_)));
    play.cut().say(&permission);
    play.start(turn(2, "Again")).say(&request);
    let refusal = json!({"selectedOption": "cancel", "cancelled": true, "answers": []});
    assert_eq!(replies(&play), [refusal.clone(), refusal]);
    assert!(
        events(&play.actions, 2)
            .iter()
            .any(|kind| matches!(kind, EventKind::Unrecognised(unknown) if unknown.what == r#"request "droid.launch_rocket""#))
    );
    assert_eq!(asks(&play.actions).len(), 0);
}

#[test]
fn a_repeated_request_is_asked_once() {
    let mut play = asked("live-allow-once");
    let line = json!({"type": "request", "id": "5545e136-255d-4485-acf1-22b6aa2acba0", "method": "droid.request_permission", "params": {}});
    play.say(&line.to_string());
    assert_eq!(asks(&play.actions).len(), 1);
    play.say(&note(
        &json!({"type": "permission_resolved", "requestId": "5545e136-255d-4485-acf1-22b6aa2acba0", "selectedOption": "cancel"}),
    ));
    assert!(play.actions.contains(&Action::AskWithdrawn(1)));
}
