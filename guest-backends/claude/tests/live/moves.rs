//! Conversations that continue in another instance, as after a reload.

use aetheel_backend_sdk::Backend as _;
use aetheel_backend_sdk::fixture::is_done;
use aetheel_backend_sdk::wit::{Action, Safety};
use claude::Backend;

use crate::{recorded, scenarios, turn, with};

#[test]
fn conversations_have_the_same_actions_when_they_move_between_instances() {
    let mut moves = 0;
    for (name, play) in scenarios::all() {
        let of_this = play.check_moving();
        assert!(
            of_this > 0
                || !["two-turns", "allow-always", "settings", "danger-and-back", "background-task"]
                    .contains(&name),
            "{name}"
        );
        moves += of_this;
    }
    assert!(moves >= 20, "{moves}");
}

#[test]
fn costs_after_a_move_cover_only_the_turn() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until(is_done);
    play.reload().start(turn(2)).finish();
    assert_eq!(
        play.actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count(),
        1,
        "the same process"
    );
    assert_eq!(play.done()[1].usage.clone().unwrap().cost_usd, Some(0.000_603));
}

#[test]
fn a_turn_that_the_agent_begins_after_a_move_has_a_new_key() {
    let mut play = recorded("background-task");
    play.start(with(1, |settings| settings.safety = Safety::Danger)).until(is_done);
    play.until(is_done);
    play.reload().say(r#"{"type":"system","subtype":"session_state_changed","state":"running"}"#);
    let begun: Vec<u32> = play
        .actions
        .iter()
        .filter_map(
            |action| if let Action::TurnBegun(turn) = action { Some(turn.turn) } else { None },
        )
        .collect();
    assert_eq!(begun, [0x8000_0000, 0x8000_0001]);
}

#[test]
fn nothing_moves_while_a_turn_is_open() {
    let mut play = recorded("allow-once");
    play.start(turn(1));
    assert_eq!(play.backend().save(), None, "the handshake is not complete");
    play.until(|action| matches!(action, Action::Ask(_)));
    assert_eq!(play.backend().save(), None, "a question is open");
}

#[test]
fn a_state_of_another_format_is_refused() {
    let mut play = recorded("two-turns");
    play.start(with(1, |settings| settings.safety = Safety::Default)).until(is_done);
    let state = play.backend().save().unwrap();
    for other in [
        "",
        "{}",
        "[",
        &state.replace("\"form\":1", "\"form\":2"),
        &state.replace("\"mode\":", "\"made\":"),
    ] {
        let refused = Backend::default().load(other, "9.9.9").unwrap_err();
        assert!(refused.contains("9.9.9"), "{refused}");
    }
}
