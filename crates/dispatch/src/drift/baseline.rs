//! Learns the usual output of agents from successful turns, and saves this baseline.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::DriftMonitor;
use aetheel_model::baseline::{Success, Version};
use aetheel_model::plain::with_causes;
use aetheel_recording::Ending;
use aetheel_store::workspace::SavedBaseline;
use aetheel_turn::TurnResult;

impl DriftMonitor {
    /// Adds a finished turn to the agent's baseline. Returns at once; a task saves the change.
    pub(super) fn note_baseline(self: &Arc<Self>, backend: &str, result: &TurnResult) {
        if result.ending != Ending::Completed || !result.findings.is_usual {
            return;
        }
        let mut positions = result.findings.positions.clone();
        if let Some(positions) = &mut positions {
            // The name of a field may be a secret, which must not be written to the file.
            let redactor = &self.deps.redactor;
            let is_clean = |position: &String| redactor.redact(position.clone()) == *position;
            positions.beside.retain(is_clean);
            positions.shown.retain(is_clean);
            positions.answers.retain(is_clean);
        }
        let success = Success {
            component: &result.generation.digest,
            answered: !result.findings.silent,
            positions: positions.as_ref(),
            at: self.deps.clock.now(),
        };
        let baselines = self.deps.host.agents.baselines();
        let changed = baselines.add(backend, result.agent_version.as_deref(), success);
        let Some(version) = changed else { return };
        let (workspace, baselines) = (self.deps.workspace.clone(), baselines.clone());
        self.tasks.spawn(async move {
            // Concurrent calls leave the latest baseline.
            let update = move |saved: &mut BTreeMap<Version, SavedBaseline>| {
                let current = baselines.current(&version);
                saved.extend(current.map(|it| (version.clone(), SavedBaseline(version, it))));
            };
            if let Err(error) = workspace.state.baselines.change(update).await {
                tracing::warn!(error = %with_causes(&error), "cannot save state/baselines.md; after a restart it is learned again");
            }
        });
    }
}
