//! The same conversation, recorded once in one-shot mode and once as a turn of a long-lived
//! process.

use aetheel_backend_sdk::fixture::Fixture;
use aetheel_backend_sdk::wit::{Action, Safety};
use claude::Backend;

use crate::{folder, recorded, with};

/// Returns the actions that are visible to the host and to users. Claude Code offers some tools,
/// such as questions, only in a long-lived process.
fn visible_actions(actions: &[Action]) -> Vec<Action> {
    let mut actions = actions.to_vec();
    for action in &mut actions {
        if let Action::SessionReady(ready) = action {
            assert!(ready.tools.contains(&"Bash".to_owned()), "{ready:?}");
            ready.tools.clear();
        }
    }
    actions
        .into_iter()
        .filter(|action| {
            matches!(action, Action::Event(_) | Action::SessionReady(_) | Action::TurnDone(_))
        })
        .collect()
}

#[test]
fn both_modes_report_the_same_events() {
    for name in ["same-think", "same-tools"] {
        let once = Fixture::load(&folder().join(name)).run::<Backend>();
        let mut live = recorded(name);
        live.start(with(1, |settings| settings.safety = Safety::Danger)).finish();
        assert!(visible_actions(&once).len() >= 7, "{name}");
        for (live, once) in visible_actions(&live.actions).into_iter().zip(visible_actions(&once)) {
            assert_eq!(live, once, "{name}");
        }
        assert_eq!(visible_actions(&live.actions).len(), visible_actions(&once).len(), "{name}");
    }
}
