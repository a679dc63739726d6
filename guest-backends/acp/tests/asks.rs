//! The recorded agents' reactions to decisions of users.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use aetheel_backend_sdk::fixture::{tool_ends, tool_starts};
use aetheel_backend_sdk::wit::{
    Action, AskKind, Decision, Exit, Mode, Outcome, Safety, StartTurn, ToolStatus,
};
use support::{answer, asked, done, next, play, text, turn, with_modes};

#[test]
fn a_permission_request_describes_the_tool_use() {
    let mut play = play("claude-permission-allow-once");
    play.start(turn(1));
    let ask = asked(&mut play);
    assert_eq!(ask.title, "touch perm_allow_once.txt");
    assert_eq!(
        ask.always_label.as_deref(),
        Some("Always Allow Bash(touch perm_allow_once.txt) and access to /srv/project")
    );
    let AskKind::Permission(tool) = &ask.kind else { panic!("{ask:?}") };
    assert_eq!(
        (tool.kind.as_str(), tool.native_name.as_str(), tool.target.as_deref()),
        ("bash", "Bash", Some("touch perm_allow_once.txt"))
    );
    assert_eq!(
        tool_starts(&play.actions).last(),
        Some(&tool),
        "the tool use starts before the request"
    );
    answer(&mut play, ask.ask, Decision::AllowOnce);
    let second = asked(&mut play);
    assert_ne!(second.ask, ask.ask);
    answer(&mut play, second.ask, Decision::AllowOnce);
    let end = done(&mut play);
    assert_eq!((end.outcome, end.text.as_deref()), (Outcome::Completed, Some("After the answer.")));
    let answers: Vec<_> = play
        .written_with("\"outcome\"")
        .iter()
        .map(|line| (line["id"].clone(), line["result"]["outcome"]["optionId"].clone()))
        .collect();
    assert_eq!(answers, [(0.into(), "allow".into()), (1.into(), "allow".into())]);
    assert!(tool_ends(&play.actions).iter().all(|end| end.status == ToolStatus::Ok));
    play.finish().check();
}

#[test]
fn questions_of_the_model_are_answered_with_options_or_in_own_words() {
    let mut play = play("claude-question");
    play.start(turn(1));
    let ask = asked(&mut play);
    let AskKind::Questions(questions) = &ask.kind else { panic!("{ask:?}") };
    let seen = questions.iter().map(|question| {
        let labels = question.options.iter().map(|option| option.label.as_str());
        let labels = labels.collect::<Vec<_>>().join(" ");
        (question.description.as_deref(), labels, question.many, question.free_text)
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            (Some("Which colour?"), "Red Blue".to_owned(), false, true),
            (Some("Which rooms?"), "Hall Kitchen".to_owned(), true, true),
        ]
    );
    assert_eq!(questions[0].options[0].description.as_deref(), Some("A warm one"));
    let answers = [("question_0", "Green"), ("question_1", "Hall")]
        .map(|(id, text)| (id.to_owned(), vec![text.to_owned()]));
    answer(&mut play, ask.ask, Decision::Answers(answers.to_vec()));
    assert_eq!(done(&mut play).text.as_deref(), Some("A green hall it is."));
    assert_eq!(
        play.written_with("accept")[0]["result"]["content"],
        serde_json::json!({"question_0_custom": "Green", "question_1": ["Hall"]})
    );
    play.finish().check();
}

#[test]
fn always_selects_the_agents_own_option() {
    let mut play = play("claude-permission-allow-always");
    play.start(turn(1));
    let ask = asked(&mut play).ask;
    answer(&mut play, ask, Decision::AllowAlways);
    play.until_host("allow_always");
    assert_eq!(
        play.written_with("\"outcome\"")[0]["result"]["outcome"]["optionId"],
        "allow_always"
    );
}

#[test]
fn always_decisions_end_with_their_process_before_a_turn_with_fewer_permissions() {
    let mut play = play("claude-permission-allow-always");
    play.start(turn(1));
    let ask = asked(&mut play).ask;
    answer(&mut play, ask, Decision::AllowAlways);
    done(&mut play);
    let spawns = |actions: &[Action]| {
        actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count()
    };
    let mut plans = next(&play, 2);
    plans.settings.mode = Mode::Plan;
    play.cut().start(plans);
    assert!(play.actions.contains(&Action::CloseStdin(1)), "the decision may apply in any mode");
    assert!(
        play.actions.iter().any(|action| matches!(action, Action::Stop(stop) if stop.proc == 1))
    );
    assert_eq!(spawns(&play.actions), 2);
    play.exit(Exit::Code(0));
    assert_eq!(play.outcomes().len(), 1, "the turn waits for the new process");
    let id = play.id_of("initialize").unwrap();
    let abilities = r#"{"loadSession":true,"sessionCapabilities":{"resume":{},"close":{}}}"#;
    play.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":1,"agentCapabilities":{abilities}}}}}"#));
    assert_eq!(play.written_with("session/resume").len(), 1, "the session is resumed");
}

#[test]
fn always_decisions_are_kept_at_the_same_or_a_higher_level() {
    let mut play = play("claude-permission-allow-always");
    play.start(turn(1));
    let ask = asked(&mut play).ask;
    answer(&mut play, ask, Decision::AllowAlways);
    done(&mut play);
    let mut more = next(&play, 2);
    more.settings.safety = Safety::Edit;
    play.cut().start(more);
    assert!(!play.actions.contains(&Action::CloseStdin(1)));
}

#[test]
fn with_other_busy_sessions_only_the_session_is_closed_and_opened_again() {
    let mut play = play("claude-permission-allow-always");
    play.start(turn(1));
    let ask = asked(&mut play).ask;
    answer(&mut play, ask, Decision::AllowAlways);
    done(&mut play);
    let mut plans = next(&play, 2);
    plans.settings.mode = Mode::Plan;
    play.cut().start(StartTurn { session: 2, ..turn(3) }).start(plans.clone());
    assert!(!play.actions.contains(&Action::CloseStdin(1)), "the other session's turn continues");
    assert_eq!(
        play.written_with("session/close")[0]["params"]["sessionId"],
        plans.native_id.unwrap()
    );
    assert_eq!(play.written_with("session/resume").len(), 0);
    let id = play.id_of("session/close").unwrap();
    play.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(play.written_with("session/resume").len(), 1);
}

#[test]
fn a_refused_tool_ends_as_denied_even_if_the_agent_does_not_report_it() {
    // This agent continues after a refusal.
    let mut claude = play("claude-permission-reject-once");
    claude.start(turn(1));
    for _ in 0..2 {
        let ask = asked(&mut claude).ask;
        answer(&mut claude, ask, Decision::Deny(Some("not now".to_owned())));
    }
    assert_eq!(done(&mut claude).outcome, Outcome::Completed);
    assert!(text(&claude.actions, 1).ends_with("After the answer."));
    // This agent cancels the turn itself, without an update of the tool.
    let mut zed = play("codex-zed-permission-reject-once");
    zed.start(turn(1));
    let ask = asked(&mut zed).ask;
    answer(&mut zed, ask, Decision::Deny(None));
    assert_eq!(done(&mut zed).outcome, Outcome::Interrupted);
    assert_eq!(
        zed.written_with("\"outcome\"")[0]["id"],
        "b88074e1-1f5b-4c94-9b6a-7742d26329f5",
        "ids are returned unchanged, as text or number"
    );
    // This agent ends the turn as completed.
    let mut droid = play("droid-permission-reject-once");
    droid.start(turn(1));
    let ask = asked(&mut droid).ask;
    answer(&mut droid, ask, Decision::Dismissed);
    assert_eq!(done(&mut droid).outcome, Outcome::Completed);
    for mut play in [claude, zed, droid] {
        let denied: Vec<_> = tool_ends(&play.actions).into_iter().map(|end| end.status).collect();
        assert!(
            !denied.is_empty() && denied.iter().all(|status| *status == ToolStatus::Denied),
            "{denied:?}"
        );
        play.finish().check();
    }
}

#[test]
fn deny_and_stop_cancels_the_turn_before_it_answers_the_request() {
    let mut play = play("codex-permission-reject-once");
    play.start(turn(1));
    let ask = asked(&mut play).ask;
    answer(&mut play, ask, Decision::DenyAndStop);
    let last: Vec<_> = play.written[play.written.len() - 2..].to_vec();
    assert!(last[0].contains("session/cancel"), "{last:?}");
    assert!(last[1].contains(r#""outcome":"cancelled""#), "{last:?}");
    assert_eq!(done(&mut play).outcome, Outcome::Interrupted);
    assert_eq!(
        play.written_with("session/set_mode")[0]["params"]["modeId"],
        "read-only",
        "the agent's default mode never asks"
    );
    play.finish().check();
}

#[test]
fn no_questions_are_asked_if_everything_is_allowed() {
    let mut play = play("opencode-permission-allow-once");
    let mut start = turn(1);
    start.settings.safety = Safety::Danger;
    play.start(with_modes(start, r#"{"danger":"build"}"#)).finish();
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
    assert!(
        !play
            .actions
            .iter()
            .any(|action| matches!(action, aetheel_backend_sdk::wit::Action::Ask(_)))
    );
    assert!(
        play.written_with("\"outcome\"")
            .iter()
            .all(|line| line["result"]["outcome"]["optionId"] == "once")
    );
}

#[test]
fn level_edit_allows_only_edits_in_the_working_directory() {
    let mut start = turn(1);
    start.settings.safety = Safety::Edit;
    let mut edit = play("claude-write-edit");
    edit.start(with_modes(start.clone(), r#"{"edit":"default"}"#)).finish();
    assert_eq!(edit.outcomes(), [&Outcome::Completed]);
    let mut elsewhere = play("claude-write-edit");
    start.cwd = "/srv/other".to_owned();
    elsewhere.start(with_modes(start.clone(), r#"{"edit":"default"}"#));
    asked(&mut elsewhere);
    let mut shell = play("claude-permission-allow-once");
    start.cwd = "/srv/project".to_owned();
    shell.start(with_modes(start, r#"{"edit":"default"}"#));
    asked(&mut shell);
}
