//! Property tests: recorded dialogues and runs with events, answers and lines cut, doubled,
//! dropped, moved and garbled.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod play;

use aetheel_backend_sdk::disturb::{self, Change};
use aetheel_backend_sdk::fixture::{Fixture, start};
use aetheel_backend_sdk::wit::{Command, Exit, Exited, Input, Query, QueryKind, StreamClosed};
use opencode::Backend;
use proptest::prelude::*;

/// Returns the inputs of a recorded dialogue.
fn dialogue(name: &str) -> Vec<Input> {
    use play::Play;
    let mut play = Play::load(name);
    play.start(play::turn(1, "hi"));
    if name.starts_with("interrupt") {
        play.until_request("abort")
            .command(Command::Interrupt(aetheel_backend_sdk::wit::TurnRef { session: 1, turn: 1 }));
    }
    if name.starts_with("permission") {
        play.until("permission.asked");
    }
    play.finish().elapse(5000.0);
    play.inputs.into_iter().map(|input| input.input).collect()
}

/// Applies changes to the server's output. Commands, starts and exits of processes are not changed.
fn disturbed(inputs: &[Input], changes: &[Change]) -> Vec<Input> {
    let mut inputs = inputs.to_vec();
    for &(at, how, place, letter) in changes {
        let said = |input: &Input| {
            matches!(
                input,
                Input::StreamEvent(_) | Input::HttpResponse(_) | Input::Line(_) | Input::Timer(_)
            )
        };
        let places: Vec<usize> = (0..inputs.len()).filter(|at| said(&inputs[*at])).collect();
        let Some(&at) = places.get(usize::from(at) % places.len().max(1)) else { break };
        let to = places[usize::from(place) % places.len()];
        let text = match &mut inputs[at] {
            Input::StreamEvent(event) => Some(&mut event.data),
            Input::HttpResponse(response) => {
                if how % 8 == 7 {
                    response.status = [204, 400, 401, 404, 500, 503][usize::from(place) % 6];
                }
                Some(&mut response.body)
            }
            Input::Line(line) => Some(&mut line.text),
            _ => None,
        };
        match (how % 7, text) {
            (0, Some(text)) => {
                text.truncate(text.floor_char_boundary(usize::from(place) % (text.len() + 1)))
            }
            (1, Some(text)) => {
                text.insert(text.floor_char_boundary(usize::from(place) % (text.len() + 1)), letter)
            }
            (2, Some(text)) => {
                let cut = text.floor_char_boundary(usize::from(place) % (text.len() + 1));
                text.replace_range(..cut, "");
            }
            // Changes a session or a role. The text is still valid JSON.
            (3, Some(text)) => {
                *text = text.replacen("ses_", "ses_x", 1).replace("assistant", "user")
            }
            (4, _) => {
                let twice = inputs[at].clone();
                inputs.insert(to, twice);
            }
            (5, _) => drop(inputs.remove(at)),
            _ => inputs.swap(at, to),
        }
    }
    inputs
}

const NAMES: [&str; 9] = [
    "hello",
    "tools",
    "permission-once",
    "interrupt-permission",
    "interrupt-text",
    "errors",
    "retry",
    "sub-agent",
    "overflow",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_disturbance_breaks_a_dialogue(
        name in prop::sample::select(&NAMES[..]),
        changes in prop::collection::vec(any::<Change>(), 1..12),
    ) {
        disturb::survive::<Backend>(disturbed(&dialogue(name), &changes));
    }

    #[test]
    fn a_dialogue_can_end_anywhere(name in prop::sample::select(&NAMES[..]), at in any::<prop::sample::Index>()) {
        let inputs = dialogue(name);
        disturb::survive::<Backend>(inputs[..at.index(inputs.len())].to_vec());
    }

    #[test]
    fn a_turn_can_be_interrupted_anywhere(name in prop::sample::select(&NAMES[..]), at in any::<prop::sample::Index>()) {
        let mut inputs = dialogue(name);
        let at = 1 + at.index(inputs.len() - 1);
        inputs.insert(at, Input::Command(Command::Interrupt(aetheel_backend_sdk::wit::TurnRef { session: 1, turn: 1 })));
        disturb::survive::<Backend>(inputs);
    }

    #[test]
    fn the_stream_can_break_and_queries_and_a_shutdown_can_arrive_anywhere(
        name in prop::sample::select(&NAMES[..]),
        what in prop::collection::vec((any::<prop::sample::Index>(), 0..4), 1..5),
    ) {
        let mut inputs = dialogue(name);
        let stream = inputs.iter().find_map(|input| if let Input::StreamOpened(opened) = input { Some(opened.stream) } else { None }).unwrap();
        for (query, (at, what)) in what.into_iter().enumerate() {
            let ask = |kind| Input::Command(Command::Query(Query { query: u32::try_from(query).unwrap(), session: Some(1), kind }));
            let input = match what {
                0 => Input::StreamClosed(StreamClosed { stream, message: None }),
                1 => ask(QueryKind::Health),
                2 => ask(QueryKind::Models),
                _ => Input::Command(Command::Shutdown),
            };
            inputs.insert(at.index(inputs.len()), input);
        }
        disturb::survive::<Backend>(inputs);
    }

    #[test]
    fn no_disturbance_breaks_a_one_shot_run(changes in prop::collection::vec(any::<Change>(), 1..12), which in any::<prop::sample::Index>()) {
        let all = Fixture::all(&play::folder());
        let mut inputs = vec![Input::Command(Command::StartTurn(start("recorded")))];
        inputs.extend(which.get(&all).inputs());
        disturb::survive::<Backend>(disturb::disturbed(&inputs, &changes));
    }
}

#[test]
fn a_server_crash_at_any_time_leaves_no_turn_open() {
    let inputs = dialogue("sub-agent");
    let proc = inputs
        .iter()
        .find_map(
            |input| if let Input::Spawned(spawned) = input { Some(spawned.proc) } else { None },
        )
        .unwrap();
    for at in 2..inputs.len() {
        let mut inputs = inputs[..at].to_vec();
        inputs.push(Input::Exited(Exited {
            proc,
            how: Exit::Signal(9),
            stderr_tail: String::new(),
        }));
        disturb::survive::<Backend>(inputs);
    }
}
