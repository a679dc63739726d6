//! Describes a start that would succeed, for `aetheel check`.

use std::path::Path;

use super::confinement;
use super::prepare::PreparedStart;
use crate::sources;
use crate::turn::Backends as _;

/// The description of a start; each string is one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// How the gateway would run, such as `backends: claude, demo`.
    pub facts: Vec<String>,
    /// Things that work, but perhaps not as the operator expects.
    pub warnings: Vec<String>,
    /// Problems that a start only logs: it ignores the faulty entries and files.
    pub faults: Vec<String>,
}

impl PreparedStart {
    /// Describes the start. Runs every agent's program once to get its version.
    pub async fn describe(&self) -> Description {
        self.agents.examine_remaining().await;
        let answers =
            self.detected.as_ref().map(|why| format!(" (auto: {why})")).unwrap_or_default();
        let mut lines = vec![
            format!("configuration: {}", absolute(&self.config.config_dir)),
            format!("workspace: {}", absolute(&self.config.workspace_dir)),
            format!("sandbox: {}", self.custody.sandbox().describe()),
            format!("backends: {}", self.agents.names().join(", ")),
            format!("answers: {}{answers}", self.config.agent_backend),
            format!(
                "program: {}",
                self.findings.program.as_deref().map_or_else(|| "none".to_owned(), absolute)
            ),
            format!("agent version: {}", self.findings.version.as_deref().unwrap_or("unknown")),
        ];
        let mut idle = Vec::new();
        for name in
            self.agents.names().into_iter().filter(|name| *name != self.config.agent_backend)
        {
            let Some(findings) = self.agents.findings(&name) else { continue };
            if self.agents.is_profile(&name) && !findings.faults.is_empty() {
                idle.push(name);
                continue;
            }
            lines.push(match findings.reasons() {
                reasons if reasons.is_empty() => {
                    format!(
                        "backend {name}: ready, agent version {}",
                        findings.version.as_deref().unwrap_or("unknown")
                    )
                }
                reasons => format!("backend {name}: not available: {reasons}"),
            });
        }
        if !idle.is_empty() {
            lines.push(format!(
                "profiles of agents that cannot work here (`aetheel backend list` shows why): {}",
                idle.join(", ")
            ));
        }
        let (heartbeats, jobs) =
            (self.workspace.heartbeats().await, self.workspace.cron_jobs().await);
        let placed = self.config.output_channel.is_some();
        let plan = sources::plan(
            heartbeats.as_deref(),
            &jobs,
            &self.config.time_zone,
            placed,
            jiff::Timestamp::now(),
        );
        lines.extend(
            plan.planned
                .iter()
                .map(|planned| format!("schedule: {} ({})", planned.lane, planned.description())),
        );
        // `prepare` has already reported an error of this.
        let boot = self.workspace.boot(true).await.unwrap_or_default();
        if !boot.created.is_empty() {
            lines.push(format!("files that the start will create: {}", boot.created.join(", ")));
        }
        let mut left_out = self.left_out.clone();
        left_out.sort();
        left_out.dedup();
        let warnings = confinement::warnings(&self.config, self.custody.sandbox())
            .into_iter()
            .chain(self.warnings.iter().cloned());
        let mut warnings: Vec<String> = warnings.chain(plan.warnings).collect();
        warnings.retain(|warning| !left_out.contains(warning));
        Description { facts: lines, warnings, faults: left_out }
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
