//! Disturbed conversations: the guarantees of a backend hold for any output.

use std::sync::LazyLock;

use aetheel_backend_sdk::disturb::{Change, disturbed, survive};
use aetheel_backend_sdk::wit::Input;
use claude::Backend;
use proptest::prelude::*;

use crate::scenarios;

static INPUTS: LazyLock<Vec<Vec<Input>>> = LazyLock::new(|| {
    scenarios::all()
        .into_iter()
        .map(|(_, play)| play.inputs.into_iter().map(|input| input.input).collect())
        .collect()
});

#[test]
fn undisturbed_conversations_meet_the_guarantees() {
    for inputs in &*INPUTS {
        survive::<Backend>(inputs.clone());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_turn_ends_once_for_any_output(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(any::<Change>(), 0..12),
    ) {
        let inputs = which.get(&INPUTS[..]);
        survive::<Backend>(disturbed(inputs, &changes));
    }

    /// The same with commands at any time.
    #[test]
    fn every_turn_ends_once_for_commands_at_any_time(
        which in any::<prop::sample::Index>(),
        moves in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
    ) {
        let mut inputs = which.get(&INPUTS[..]).clone();
        for (from, to) in moves {
            let input = inputs.remove(from.index(inputs.len()));
            inputs.insert(to.index(inputs.len() + 1), input);
        }
        survive::<Backend>(inputs);
    }
}
