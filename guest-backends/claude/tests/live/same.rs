//! The same conversation, recorded once with a process of its own and once as a turn of one that
//! lives on.

use aetheel_backend_sdk::fixture::Fixture;
use aetheel_backend_sdk::wit::{Action, Safety};
use claude::Backend;

use crate::{folder, recorded, with};

/// Returns the actions that the host and people notice.
fn heard(actions: &[Action]) -> Vec<&Action> {
    actions
        .iter()
        .filter(|action| {
            matches!(action, Action::Event(_) | Action::SessionReady(_) | Action::TurnDone(_))
        })
        .collect()
}

#[test]
fn both_modes_tell_the_same() {
    for name in ["same-think", "same-tools"] {
        let once = Fixture::load(&folder().join(name)).run::<Backend>();
        let mut live = recorded(name);
        live.start(with(1, |settings| settings.safety = Safety::Danger)).finish();
        assert!(heard(&once).len() >= 7, "{name}");
        for (live, once) in heard(&live.actions).into_iter().zip(heard(&once)) {
            assert_eq!(live, once, "{name}");
        }
        assert_eq!(heard(&live.actions).len(), heard(&once).len(), "{name}");
    }
}
