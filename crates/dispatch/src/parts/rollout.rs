//! New versions of backends are compared with the serving ones after each turn. The comparisons are
//! in [`rollout`](crate::rollout).

use crate::agent_run::EndedRun;
use crate::part::{Gateway, TurnPart};

/// New versions of backends are compared with the serving ones.
pub struct RolloutComparisons;

impl TurnPart for RolloutComparisons {
    fn name(&self) -> &'static str {
        "rollout"
    }

    fn agent_ended(&self, Gateway { shared }: Gateway<'_>, run: &EndedRun<'_>) {
        shared.rollout.on_turn_end(run.name.backend, run.name.id, run.result);
    }
}
