//! Interrupts of a one-shot run.

use aetheel_backend_sdk::fixture::{TURN, run, start};
use aetheel_backend_sdk::wit::{Action, Command, Exit, Exited, Input, Outcome, Signal, Spawned};
use droid::Backend;

#[test]
fn an_interrupt_kills_the_agent_and_ends_the_turn_as_interrupted() {
    let inputs = vec![
        Input::Spawned(Spawned { proc: 1, agent_version: None }),
        Input::Command(Command::Interrupt(TURN)),
        Input::Exited(Exited { proc: 1, how: Exit::Signal(9), stderr_tail: String::new() }),
    ];
    let actions = run::<Backend>(start("hi"), inputs);
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Stop(stop) if stop.signal == Signal::Kill)),
        "{actions:?}"
    );
    assert!(
        matches!(actions.last(), Some(Action::TurnDone(done)) if done.outcome == Outcome::Interrupted),
        "{actions:?}"
    );
}
