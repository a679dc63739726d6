//! Observers get the events of turns, without secrets.

use crate::agent_run::{BegunRun, EndedRun, RunName};
use crate::outlet::messages;
use crate::part::{Gateway, TurnPart};
use crate::turn_feed::TurnFeed;

/// Observers get the events of turns.
pub struct Observers;

impl TurnPart for Observers {
    fn name(&self) -> &'static str {
        "observers"
    }

    fn feed(&self, Gateway { shared }: Gateway<'_>, turn: RunName<'_>) -> Option<TurnFeed> {
        Some(TurnFeed::of(&shared.deps, turn))
    }

    fn agent_begins(&self, Gateway { shared }: Gateway<'_>, run: &BegunRun<'_>) {
        let backend = &run.backend.descriptor().name;
        let name = RunName { event: run.event, id: run.id, backend };
        TurnFeed::of(&shared.deps, name).begun(run);
    }

    fn agent_ended(&self, Gateway { shared }: Gateway<'_>, run: &EndedRun<'_>) {
        let failure = messages::failure_detail(&run.result.ending);
        TurnFeed::of(&shared.deps, run.name).ended(run.result, failure.as_deref());
    }
}
