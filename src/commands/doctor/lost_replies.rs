//! Reports lost replies that the gateway recorded: replies that no backend could read.

use std::collections::BTreeSet;

use super::report::DoctorReport;
use aetheel_model::plain::with_causes;
use aetheel_settings::Config;
use aetheel_store::workspace::{LostTurn, StateFile};

/// Adds a warning for each backend with lost replies.
pub(super) fn examine(report: &mut DoctorReport, config: &Config) {
    let turns = match StateFile::<LostTurn>::read_folder(&config.config_dir) {
        Ok(turns) => turns,
        Err(error) => {
            return report.warning(
                "lost replies",
                with_causes(&error),
                "make state/lost.md readable, or remove it",
            );
        }
    };
    let open: BTreeSet<&str> = turns
        .iter()
        .filter(|turn| turn.state.is_open())
        .map(|turn| turn.backend.as_str())
        .collect();
    if open.is_empty() {
        return report.ok("lost replies", "no lost replies");
    }
    for backend in open {
        let (lost, readable) = LostTurn::count(&turns, backend);
        let says = format!(
            "{lost} could not be read by any backend so far, {readable} can be read and are not delivered yet"
        );
        let hint = "install a newer backend, then run `aetheel recover`; see docs/recovery.md";
        report.warning(format!("lost replies of {backend}"), says, hint);
    }
}
