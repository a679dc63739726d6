//! Settings that change between turns.

use aetheel_backend_sdk::fixture::{is_done, ready};
use aetheel_backend_sdk::wit::{Action, Chunk, Mode, Outcome, PutFile, Safety, Settings};
use serde_json::{Value, json};

use crate::{Conversation, launches, recorded, scenarios, turn, with};

/// Returns the changes of settings that the backend requested.
fn changes(play: &Conversation) -> Vec<Value> {
    let mut requests = play.written_with("\"control_request\"");
    requests.retain(|line| line["request"]["subtype"] != "initialize");
    requests.into_iter().map(|mut line| line["request"].take()).collect()
}

#[test]
fn model_effort_and_mode_are_changed_without_a_restart() {
    let play = scenarios::settings();
    assert_eq!(
        changes(&play),
        [
            json!({"subtype": "set_model", "model": "claude-opus-4-5"}),
            json!({"subtype": "apply_flag_settings", "settings": {"effortLevel": "low"}}),
            json!({"subtype": "set_permission_mode", "mode": "plan"}),
            json!({"subtype": "set_model", "model": "claude-sonnet-4-5"}),
            json!({"subtype": "apply_flag_settings", "settings": {"effortLevel": null}}),
            json!({"subtype": "set_permission_mode", "mode": "default"}),
        ]
    );
    assert_eq!(launches(&play).len(), 1);
    assert_eq!(
        play.done().iter().filter_map(|done| done.text.as_deref()).collect::<Vec<_>>(),
        ["One.", "Two.", "Three."]
    );
    assert_eq!(ready(&play.actions)[1].model.as_deref(), Some("claude-opus-4-5"));
}

#[test]
fn a_prompt_waits_until_its_settings_are_applied() {
    let mut play = recorded("settings");
    play.start(turn(1));
    play.until(is_done);
    play.start(with(2, |settings| settings.mode = Mode::Plan));
    assert_eq!(play.written_with("\"user\"").len(), 1);
    play.until_agent("req_4_set_permission_mode");
    assert_eq!(play.written_with("\"user\"").len(), 2);
}

#[test]
fn safety_is_lowered_without_a_restart() {
    let play = scenarios::danger_and_back();
    assert_eq!(launches(&play).len(), 1);
    let modes: Vec<Value> =
        changes(&play).into_iter().map(|mut change| change["mode"].take()).collect();
    assert_eq!(modes, ["default", "bypassPermissions"]);
    assert_eq!(play.actions.iter().filter(|action| matches!(action, Action::Ask(_))).count(), 1);
    assert_eq!(play.outcomes(), [&Outcome::Completed; 3]);
}

#[test]
fn bypassing_permissions_needs_a_new_process() {
    let mut play = recorded("two-turns");
    play.start(turn(1));
    play.until(is_done);
    play.cut().start(with(2, |settings| settings.safety = Safety::Danger));
    assert!(play.actions.contains(&Action::CloseStdin(1)));
    play.exit(aetheel_backend_sdk::wit::Exit::Code(0));
    assert!(launches(&play)[1].contains(&"--dangerously-skip-permissions".to_owned()));
}

#[test]
fn planning_needs_a_process_that_cannot_bypass_permissions() {
    let mut play = recorded("two-turns");
    play.start(with(1, |settings| settings.safety = Safety::Danger));
    play.until(is_done);
    play.cut().start(with(2, |settings| settings.mode = Mode::Plan));
    assert!(play.actions.contains(&Action::CloseStdin(1)), "a process in this mode does not ask");
    play.exit(aetheel_backend_sdk::wit::Exit::Code(0));
    let second = &launches(&play)[1];
    assert!(second.windows(2).any(|pair| pair == ["--permission-mode", "plan"]), "{second:?}");
    assert!(!second.contains(&"--dangerously-skip-permissions".to_owned()), "{second:?}");
}

#[test]
fn a_changed_system_prompt_restarts_the_agent_in_its_session() {
    let play = scenarios::restart();
    let launches = launches(&play);
    assert_eq!(launches.len(), 2);
    assert!(
        launches[1]
            .windows(2)
            .any(|pair| pair == ["--resume", "7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11"])
    );
    let prompts: Vec<_> = play
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::PutFile(PutFile { body, .. }) => Some(body.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(
        prompts,
        [[Chunk::Text("Speak plainly.".to_owned())], [Chunk::Text("Speak in rhyme.".to_owned())]]
    );
    assert_eq!(
        play.done().iter().filter_map(|done| done.text.as_deref()).collect::<Vec<_>>(),
        ["One.", "Two.", "Three."]
    );
    assert_eq!(
        play.done()[1].usage.clone().unwrap().cost_usd,
        play.done()[0].usage.clone().unwrap().cost_usd,
        "a new process counts from zero"
    );
}

#[test]
fn changed_tools_turn_limit_and_default_model_need_a_new_process() {
    let tools: fn(&mut Settings) = |settings| settings.allowed_tools = vec!["Read".to_owned()];
    let limit: fn(&mut Settings) = |settings| settings.max_turns = Some(3);
    let own_model: fn(&mut Settings) = |settings| settings.model = None;
    for change in [tools, limit, own_model] {
        let mut play = recorded("two-turns");
        let sonnet: fn(&mut Settings) =
            |settings| settings.model = Some("claude-sonnet-4-5".to_owned());
        play.start(with(1, sonnet));
        play.until(is_done);
        let changed = |settings: &mut Settings| {
            sonnet(settings);
            change(settings);
        };
        play.cut().start(with(2, changed));
        assert!(play.actions.contains(&Action::CloseStdin(1)));
    }
}

#[test]
fn a_refused_setting_becomes_a_flag_of_a_new_process() {
    for refusal in [
        r#"{"type":"control_response","response":{"subtype":"error","request_id":"1-2","error":"no"}}"#,
        r#"{"type":"control_response","response":{"subtype":"success","request_id":"1-2","response":{"mode":"acceptEdits"}}}"#,
    ] {
        let mut play = recorded("two-turns");
        play.start(turn(1));
        play.until(is_done);
        play.cut().start(with(2, |settings| settings.mode = Mode::Plan)).say(refusal);
        assert!(play.actions.contains(&Action::CloseStdin(1)));
        assert_eq!(
            play.written_with("\"user\"").len(),
            1,
            "no prompt is sent before the setting is applied"
        );
        play.exit(aetheel_backend_sdk::wit::Exit::Code(0));
        assert!(launches(&play)[1].windows(2).any(|pair| pair == ["--permission-mode", "plan"]));
    }
}

#[test]
fn a_result_before_the_prompt_does_not_end_the_turn() {
    let mut play = recorded("two-turns");
    play.start(turn(1));
    play.until(is_done);
    play.cut().start(with(2, |settings| settings.mode = Mode::Plan));
    play.say(r#"{"type":"result","subtype":"success","is_error":false,"result":"of something in the background"}"#);
    let id = play.id_of("set_permission_mode").unwrap();
    play.say(&format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{id}}}}}"#
    ));
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    assert_eq!(play.done().len(), 1);
}
