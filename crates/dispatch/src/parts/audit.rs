//! The audit log has the beginning and the end of each turn.

use crate::agent_run::BegunRun;
use crate::part::{Gateway, TurnPart};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_store::workspace::TurnLine;

/// The audit log has the beginning and the end of each turn.
pub struct TurnAudit;

impl TurnPart for TurnAudit {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn agent_begins(&self, _gateway: Gateway<'_>, run: &BegunRun<'_>) {
        let (event, generation) = (run.event, run.backend.generation());
        AuditEntry::new(AuditKind::TurnBegun)
            .by(event.asker, event.author.as_deref())
            .in_lane(&event.lane)
            .with("turn", run.id)
            .with("event", event.sequence)
            .with("backend", &run.backend.descriptor().name)
            .with("component", &run.backend.descriptor().version)
            .with("digest", &generation.digest)
            .with("generation", generation.number)
            .with_known("model", run.start.settings.model.as_deref())
            .with_known("continued", run.is_resumed.then_some("yes"))
            .note();
    }

    fn turn_ended(&self, _gateway: Gateway<'_>, line: &TurnLine, by_earlier: bool) {
        let price = line.usage.as_ref().and_then(|usage| usage.cost_usd);
        AuditEntry::new(AuditKind::TurnEnded)
            .by(line.user, line.name.as_deref())
            .in_lane(&line.lane)
            .with("turn", &line.turn)
            .with("event", line.event)
            .with("backend", &line.backend)
            .with("component", &line.component)
            .with("digest", &line.digest)
            .with_known("agent-version", line.agent_version.as_deref())
            .with_known("model", line.model.as_deref())
            .with("outcome", &line.how)
            .with("tools", line.tools)
            .with("took-ms", line.took_ms)
            .with_known("cost-usd", price)
            .with_known("earlier-process", by_earlier.then_some("yes"))
            .note();
    }
}
