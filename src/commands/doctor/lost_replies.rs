//! Reports lost replies that the gateway recorded: replies that no backend could read.

use std::collections::BTreeSet;

use super::report::warning;
use aetheel_model::finding::Finding;
use aetheel_model::plain::with_causes;
use aetheel_settings::Config;
use aetheel_store::workspace::{LostTurn, StateFile};

/// Returns a warning for each backend with lost replies.
pub(super) fn examine(config: &Config) -> Vec<Finding> {
    let turns = match StateFile::<LostTurn>::read_folder(&config.config_dir) {
        Ok(turns) => turns,
        Err(error) => {
            let hint = "make state/lost.md readable, or remove it";
            return vec![warning("lost replies", with_causes(&error), hint)];
        }
    };
    let open: BTreeSet<&str> = turns
        .iter()
        .filter(|turn| turn.state.is_open())
        .map(|turn| turn.backend.as_str())
        .collect();
    if open.is_empty() {
        return vec![Finding::ok("lost replies", "no lost replies")];
    }
    let lost = |backend| {
        let (lost, readable) = LostTurn::count(&turns, backend);
        let says = format!(
            "{lost} could not be read by any backend so far, {readable} can be read and are not delivered yet"
        );
        let hint = "install a newer backend, then run `aetheel recover`; see docs/recovery.md";
        warning(format!("lost replies of {backend}"), says, hint)
    };
    open.into_iter().map(lost).collect()
}
