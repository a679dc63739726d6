//! Questions to users, and the answers to the agent.

use aetheel_backend_sdk::fixture::{asks, ends, is_done, unrecognised};
use aetheel_backend_sdk::wit::{
    Action, Answer, AskKind, Command, Decision, Exit, Mode, Outcome, Safety, Settings, StartTurn,
    ToolStatus,
};
use serde_json::{Value, json};

use crate::{Conversation, recorded, scenarios, turn, with};

fn replies(play: &Conversation) -> Vec<Value> {
    play.written_with("\"control_response\"")
        .into_iter()
        .map(|mut line| line["response"]["response"].take())
        .collect()
}

/// Returns the reply to the recorded request of `deny` for a decision.
fn reply(decision: Decision) -> Value {
    replies(&scenarios::asked("deny", decision)).remove(0)
}

#[test]
fn a_permission_names_the_tool_and_the_meaning_of_always() {
    let play = scenarios::asked("deny", Decision::Deny(None));
    let ask = asks(&play.actions)[0];
    assert_eq!(ask.title, "Bash: touch denied.txt");
    assert_eq!(ask.always_label.as_deref(), Some("Bash(touch denied.txt)"));
    let AskKind::Permission(tool) = &ask.kind else { panic!("{ask:?}") };
    assert_eq!((tool.kind.as_str(), tool.target.as_deref()), ("bash", Some("touch denied.txt")));
}

#[test]
fn a_permission_for_a_sub_agent_names_the_tool_use_that_started_it() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("\"assistant\"");
    play.say(
        r#"{"type":"system","subtype":"task_started","task_id":"a1","tool_use_id":"toolu_9","description":"look","task_type":"local_agent"}"#,
    );
    for agent in ["a1", "unknown"] {
        play.say(&format!(
            r#"{{"type":"control_request","request_id":"{agent}","request":{{"subtype":"can_use_tool","tool_name":"Bash","input":{{}},"tool_use_id":"t","agent_id":"{agent}"}}}}"#
        ));
    }
    let parents: Vec<_> = asks(&play.actions).iter().map(|ask| ask.parent.as_deref()).collect();
    assert_eq!(parents, [Some("toolu_9"), None]);
}

#[test]
fn every_decision_has_the_form_that_claude_code_expects() {
    let input = json!({"command": "touch denied.txt", "description": "run a command"});
    let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch denied.txt"}], "behavior": "allow", "destination": "session"});
    for (decision, told) in [
        (Decision::AllowOnce, json!({"behavior": "allow", "updatedInput": input})),
        (
            Decision::AllowAlways,
            json!({"behavior": "allow", "updatedInput": input, "updatedPermissions": [rule]}),
        ),
        (Decision::Deny(None), json!({"behavior": "deny", "message": "The user denied this."})),
        (
            Decision::Deny(Some("not \"today\"".to_owned())),
            json!({"behavior": "deny", "message": "The user denied this. They said: not \"today\""}),
        ),
        (
            Decision::DenyAndStop,
            json!({"behavior": "deny", "message": "The user denied this.", "interrupt": true}),
        ),
        (
            Decision::Dismissed,
            json!({"behavior": "deny", "message": "The request for permission was not answered. Go on without it."}),
        ),
        (
            Decision::Answers(Vec::new()),
            json!({"behavior": "deny", "message": "The request for permission was not answered. Go on without it."}),
        ),
    ] {
        assert_eq!(reply(decision.clone()), told, "{decision:?}");
    }
}

#[test]
fn a_denied_tool_ends_once_and_the_turn_continues() {
    let play = scenarios::asked("deny", Decision::Deny(None));
    assert_eq!(ends(&play.actions), [(ToolStatus::Denied, "The user denied this.", None)]);
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
}

#[test]
fn deny_and_stop_ends_the_turn() {
    let play = scenarios::asked("deny-and-stop", Decision::DenyAndStop);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
    assert_eq!(
        ends(&play.actions).iter().map(|end| end.0).collect::<Vec<_>>(),
        [ToolStatus::Denied]
    );
}

#[test]
fn always_covers_only_the_request_and_the_session() {
    let play = scenarios::allow_always();
    let labels: Vec<_> =
        asks(&play.actions).into_iter().map(|ask| ask.always_label.clone().unwrap()).collect();
    assert_eq!(
        labels,
        ["Bash(touch w1.txt)", "edit files here"],
        "each tool was used twice with one question"
    );
    for reply in replies(&play) {
        let permissions = reply["updatedPermissions"].as_array().unwrap();
        assert_eq!(permissions.len(), 1);
        assert_eq!(permissions[0]["destination"], "session");
    }
    assert_eq!(ends(&play.actions).len(), 4);
}

#[test]
fn session_permissions_survive_a_restart_of_the_agent() {
    let play = scenarios::restart();
    assert_eq!(
        asks(&play.actions).len(),
        1,
        "the new process asked again and was answered automatically"
    );
    assert_eq!(replies(&play)[0], replies(&play)[1]);
}

#[test]
fn questions_are_answered_with_options_or_free_text() {
    let play = scenarios::questions();
    let AskKind::Questions(questions) = &asks(&play.actions)[0].kind else {
        panic!("{:?}", asks(&play.actions))
    };
    assert_eq!(questions[0].text, "Which colours?");
    let said: Vec<_> =
        questions[0].options.iter().map(|option| option.description.as_deref()).collect();
    assert_eq!(said, [Some("as blood"), Some("as the sea")]);
    assert_eq!((questions[0].many, questions[1].many), (true, false));
    assert_eq!(
        questions[1].options.iter().map(|option| option.label.as_str()).collect::<Vec<_>>(),
        ["Fun", "Work"]
    );
    assert_eq!(
        replies(&play)[0]["updatedInput"]["answers"],
        json!({"Which colours?": "Red, Blue", "Why?": "my own words"})
    );
    assert_eq!(
        replies(&play)[1],
        json!({"behavior": "deny", "message": "Nobody answered the questions. Go on without the answers."})
    );
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
}

#[test]
fn answers_to_unknown_questions_are_ignored() {
    for answers in [
        vec![("7".to_owned(), vec!["x".to_owned()])],
        vec![("0".to_owned(), Vec::new())],
        Vec::new(),
    ] {
        let play = scenarios::asked("questions", Decision::Answers(answers));
        assert_eq!(replies(&play)[0]["behavior"], "deny");
    }
}

#[test]
fn a_plan_is_approved_or_denied() {
    let play = scenarios::plan();
    let kinds: Vec<_> = asks(&play.actions).into_iter().map(|ask| &ask.kind).collect();
    assert!(
        matches!(kinds[0], AskKind::PlanApproval(plan) if plan == "1. look\n2. do it"),
        "{kinds:?}"
    );
    assert_eq!(replies(&play)[0]["message"], "The user denied this. They said: ask first");
    assert_eq!(
        replies(&play)[1],
        json!({"behavior": "allow", "updatedInput": {"plan": "1. look\n2. ask\n3. do it"}})
    );
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
}

#[test]
fn an_answer_to_a_withdrawn_question_is_ignored() {
    let play = scenarios::interrupted("interrupt-ask");
    let ask = asks(&play.actions)[0].ask;
    assert!(play.actions.contains(&Action::AskWithdrawn(ask)));
    let mut play = play;
    play.command(Command::Answer(Answer { ask, decision: Decision::AllowOnce }));
    assert_eq!(replies(&play).len(), 0);
}

#[test]
fn a_repeated_request_is_asked_once() {
    let mut play = recorded("deny");
    let request = r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{},"tool_use_id":"t"}}"#;
    play.start(turn(1)).until_agent("requires_action").cut();
    play.say(request).say(request);
    assert_eq!(asks(&play.actions).len(), 1);
}

#[test]
fn requests_outside_a_turn_and_of_unknown_kind_are_answered() {
    let mut play = recorded("two-turns");
    play.start(turn(1));
    play.until(is_done);
    play.cut().say(r#"{"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}"#);
    play.say(
        r#"{"type":"control_request","request_id":"b","request":{"subtype":"hook_callback"}}"#,
    );
    let told = play.written_with("\"control_response\"");
    assert_eq!(
        (&told[0]["response"]["request_id"], &told[0]["response"]["response"]["behavior"]),
        (&json!("a"), &json!("deny"))
    );
    assert_eq!(
        told[1]["response"],
        json!({"subtype": "error", "request_id": "b", "error": "not supported"})
    );
}

#[test]
fn a_truncated_request_is_refused_and_reported() {
    let mut play = recorded("deny");
    play.start(turn(1)).until_agent("requires_action").cut();
    play.say(
        r#"{"type":"control_request","request_id":"r-1","request":{"subtype":"can_use_tool","tool_name":"Write","input":{"content":"aa"#,
    );
    let told = play.written_with("\"control_response\"");
    assert_eq!(
        (&told[0]["response"]["request_id"], &told[0]["response"]["response"]["behavior"]),
        (&json!("r-1"), &json!("deny"))
    );
    assert_eq!(unrecognised(&play.actions).len(), 1);
    assert_eq!(asks(&play.actions).len(), 0);
}

/// Requests an edit, after the agent reported a mode.
fn edit(play: &mut Conversation, id: u32, mode: &str) {
    play.say(
        &json!({"type": "system", "subtype": "status", "status": null, "permissionMode": mode})
            .to_string(),
    );
    let suggestions = json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]);
    let request = json!({"subtype": "can_use_tool", "tool_name": "Edit", "input": {}, "tool_use_id": "t", "permission_suggestions": suggestions});
    play.say(
        &json!({"type": "control_request", "request_id": id.to_string(), "request": request})
            .to_string(),
    );
}

#[test]
fn session_permissions_do_not_end_planning() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("running").cut();
    edit(&mut play, 1, "default");
    play.command(Command::Answer(Answer { ask: 1, decision: Decision::AllowAlways }));
    edit(&mut play, 2, "default");
    assert_eq!(asks(&play.actions).len(), 1);
    play.say(r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#);
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    play.start(with(2, |settings| settings.mode = Mode::Plan)).exit(Exit::Code(0));
    play.say(r#"{"type":"control_response","response":{"subtype":"success","request_id":"2-1"}}"#);
    edit(&mut play, 3, "plan");
    assert_eq!(asks(&play.actions).len(), 2, "the use needs a question again");
    assert_eq!(asks(&play.actions)[1].always_label, None, "planning ends only with a plan");
}

#[test]
fn a_lower_level_and_plan_mode_restart_the_agent_without_session_permissions() {
    let lower: [fn(&mut Settings); 2] = [
        |settings| settings.safety = Safety::Default,
        |settings| (settings.safety, settings.mode) = (Safety::Edit, Mode::Plan),
    ];
    for lower in lower {
        let mut play = recorded("two-turns");
        play.start(with(1, |settings| settings.safety = Safety::Edit)).until_agent("running").cut();
        edit(&mut play, 1, "acceptEdits");
        play.command(Command::Answer(Answer { ask: 1, decision: Decision::AllowAlways }));
        play.say(r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#);
        play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
        assert!(!play.actions.contains(&Action::CloseStdin(1)));
        play.start(with(2, lower));
        assert!(
            play.actions.contains(&Action::CloseStdin(1)),
            "the process cannot forget permissions"
        );
        play.exit(Exit::Code(0));
        play.say(
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"2-1"}}"#,
        );
        edit(&mut play, 2, "default");
        assert_eq!(asks(&play.actions).len(), 2);
    }
}

#[test]
fn session_permissions_hold_at_the_same_level_and_above() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("running").cut();
    edit(&mut play, 1, "default");
    play.command(Command::Answer(Answer { ask: 1, decision: Decision::AllowAlways }));
    play.say(r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#);
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    play.start(turn(2));
    edit(&mut play, 2, "default");
    assert_eq!(asks(&play.actions).len(), 1);
    assert!(!play.actions.contains(&Action::CloseStdin(1)));
}

#[test]
fn an_answer_after_the_end_of_its_turn_is_ignored() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("running").cut();
    edit(&mut play, 1, "default");
    play.say(r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#);
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    play.command(Command::Answer(Answer {
        ask: asks(&play.actions)[0].ask,
        decision: Decision::AllowOnce,
    }));
    assert_eq!(replies(&play).len(), 0);
}

#[test]
fn permissions_of_a_session_do_not_apply_to_the_next() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("running").cut();
    edit(&mut play, 1, "default");
    play.command(Command::Answer(Answer { ask: 1, decision: Decision::AllowAlways }));
    play.say(r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#);
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    play.start(StartTurn { session: 2, ..turn(2) }).exit(Exit::Code(0));
    play.say(r#"{"type":"control_response","response":{"subtype":"success","request_id":"2-1"}}"#);
    edit(&mut play, 2, "default");
    assert_eq!(asks(&play.actions).len(), 2);
}
