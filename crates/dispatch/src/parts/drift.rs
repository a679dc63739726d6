//! Output that backends do not recognise is reported after each turn. The reports are in
//! [`drift`](crate::drift).

use crate::agent_run::EndedRun;
use crate::part::{Gateway, TurnPart};

/// Output that backends do not recognise is reported.
pub struct DriftReports;

impl TurnPart for DriftReports {
    fn name(&self) -> &'static str {
        "drift"
    }

    fn agent_ended(&self, Gateway { shared }: Gateway<'_>, run: &EndedRun<'_>) {
        let backend = run.name.backend;
        let is_partial = shared.rollout.is_partial(backend, &run.result.generation);
        shared.drift.on_turn_end(backend, run.result, is_partial);
    }
}
