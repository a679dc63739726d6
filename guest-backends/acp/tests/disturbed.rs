//! Property tests: for any output of an agent, in any order, the link survives and each turn ends
//! exactly once.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use acp::Backend;
use aetheel_backend_sdk::disturb::{Change, disturbed, survive};
use aetheel_backend_sdk::wit::{
    Action, Answer, Command, Decision, Input, Mode, QueryKind, TurnRef,
};
use proptest::collection::vec;
use proptest::prelude::*;
use support::{SESSION, play, query, turn, with_modes};

const DIALOGUES: [&str; 8] = [
    "claude-init-prompt-streaming",
    "claude-permission-allow-once",
    "claude-steer-mid-turn",
    "claude-two-sessions-one-process",
    "codex-zed-load-session",
    "codex-zed-permission-reject-once",
    "droid-permission-reject-once",
    "codex-error-400",
];

/// Returns the inputs of a dialogue, with commands that a host could send.
fn inputs(name: &str) -> Vec<Input> {
    let mut play = play(name);
    let mut first = with_modes(turn(1), r#"{"default":"agent"}"#);
    if name.contains("load") {
        first.native_id = Some("01a20003-95b8-78a1-b573-70e9a17bf5c7".to_owned());
    }
    play.start(first);
    let mut second = turn(2);
    second.session = 2;
    play.start(second).finish();
    let mut inputs: Vec<Input> = play.inputs.into_iter().map(|input| input.input).collect();
    let asks = play.actions.iter().filter(|action| matches!(action, Action::Ask(_))).count();
    for ask in 1..=u32::try_from(asks).unwrap() {
        let at = inputs.len() - 1;
        inputs.insert(
            at,
            Input::Command(Command::Answer(Answer { ask, decision: Decision::AllowOnce })),
        );
    }
    let at = inputs.len() * 2 / 3;
    inputs.insert(at, Input::Command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 })));
    inputs
}

#[test]
fn lines_can_be_cut_anywhere() {
    for name in DIALOGUES {
        let inputs = inputs(name);
        for at in 0..u16::try_from(inputs.len()).unwrap() {
            survive::<Backend>(disturbed(&inputs, &[(at, 0, at.wrapping_mul(31), 'x')]));
        }
    }
}

/// Returns a command that can arrive at any time. A turn that plans revokes all "always" decisions.
fn command(number: u32, how: u8) -> Input {
    let session = u32::from(how % 3) + 1;
    Input::Command(match how / 3 % 6 {
        0 => Command::Shutdown,
        1 => Command::CloseSession(session),
        2 => query(number, if how < 128 { QueryKind::Health } else { QueryKind::Sessions }),
        3 => Command::Answer(Answer { ask: session, decision: Decision::AllowAlways }),
        plans => {
            let mut start = turn(number);
            (start.session, start.one_shot) = (session, how > 240);
            start.settings.mode = if plans == 4 { Mode::Plan } else { Mode::Build };
            Command::StartTurn(start)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_can_be_cut_doubled_dropped_moved_and_garbled(
        dialogue in 0..DIALOGUES.len(),
        changes in vec(any::<Change>(), 0..12),
    ) {
        survive::<Backend>(disturbed(&inputs(DIALOGUES[dialogue]), &changes));
    }

    #[test]
    fn commands_can_arrive_at_any_time(
        dialogue in 0..DIALOGUES.len(),
        changes in vec(any::<Change>(), 0..4),
        commands in vec((any::<u16>(), any::<u8>()), 0..12),
    ) {
        let mut inputs = disturbed(&inputs(DIALOGUES[dialogue]), &changes);
        for (number, (at, how)) in (10..).zip(commands) {
            inputs.insert(usize::from(at) % (inputs.len() + 1), command(number, how));
        }
        survive::<Backend>(inputs);
    }
}
