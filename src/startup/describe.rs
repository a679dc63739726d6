//! Describes a start that would succeed, for `aetheel check`.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::prepare::PreparedStart;
use super::{confinement, survey};
use crate::sources;
use aetheel_model::finding::Finding;
use aetheel_model::plain::short_line;
use aetheel_model::schedule::Cron;
use aetheel_store::workspace::{AgentSchedule, CronTimes, Workspace};
use aetheel_turn::Backends as _;

/// Largest length of the reasons why an installed agent cannot work. `aetheel backend list` shows
/// all of them.
pub const MAX_REASONS_CHARS: usize = 240;

/// The description of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// How the gateway would run, such as `backends: claude, demo`.
    pub facts: Vec<Finding>,
    /// Things that work, but perhaps not as the operator expects.
    pub warnings: Vec<Finding>,
    /// Problems that a start only logs: it ignores the faulty entries and files.
    pub faults: Vec<Finding>,
}

impl PreparedStart {
    /// Describes the start. Runs every agent's program once to get its version.
    pub async fn describe(&self) -> Description {
        self.loaded.agents.examine_remaining().await;
        let answers =
            self.loaded.detected.as_ref().map(|why| format!(" (auto: {why})")).unwrap_or_default();
        let mut lines = vec![
            Finding::ok("configuration", absolute(&self.config.config_dir)),
            Finding::ok("workspace", absolute(&self.config.workspace_dir)),
            Finding::ok("sandbox", self.loaded.custody.sandbox().describe()),
            Finding::ok("backends", self.loaded.agents.names().join(", ")),
            Finding::ok("answers", format!("{}{answers}", self.config.agent_backend)),
            Finding::ok(
                "program",
                self.findings.program.as_deref().map_or_else(|| "none".to_owned(), absolute),
            ),
            Finding::ok("agent version", self.findings.version.as_deref().unwrap_or("unknown")),
        ];
        lines.push(survey::limits_in_force(&self.config.config_dir));
        lines.extend(self.backends());
        let (heartbeats, jobs) =
            (self.workspace.heartbeats().await, self.workspace.cron_jobs().await);
        let placed = self.config.discord.output_channel.is_some();
        let plan = sources::plan(
            heartbeats.as_deref(),
            &jobs,
            &self.config.time_zone,
            placed,
            Timestamp::now(),
        );
        lines.extend(plan.planned.iter().map(|planned| {
            Finding::ok("schedule", format!("{} ({})", planned.lane, planned.description()))
        }));
        let (later, later_problems) = later_turns(&self.workspace);
        lines.extend(later);
        // `prepare` has already reported an error of this.
        let boot = self.workspace.boot(true).await.unwrap_or_default();
        if !boot.created.is_empty() {
            lines.push(Finding::ok("files that the start will create", boot.created.join(", ")));
        }
        let mut left_out = self.left_out.clone();
        left_out.sort_by_cached_key(ToString::to_string);
        left_out.dedup_by_key(|finding| finding.to_string());
        let warnings = confinement::warnings(&self.config, self.loaded.custody.sandbox())
            .into_iter()
            .chain(self.warnings.iter().cloned());
        let planned = plan.warnings.into_iter().map(|text| Finding::warning("schedules", text));
        let mut warnings: Vec<Finding> = warnings.chain(planned).chain(later_problems).collect();
        let known: Vec<String> = left_out.iter().map(ToString::to_string).collect();
        warnings.retain(|warning| !known.contains(&warning.to_string()));
        Description { facts: lines, warnings, faults: left_out }
    }

    /// Describes the other backends, the policies and the observers.
    fn backends(&self) -> Vec<Finding> {
        let (mut lines, mut idle, mut profiles) = (Vec::new(), Vec::new(), 0);
        for name in
            self.loaded.agents.names().into_iter().filter(|name| *name != self.config.agent_backend)
        {
            let Some(findings) = self.loaded.agents.findings(&name) else { continue };
            if findings.faults.is_empty() {
                let version = findings.version.as_deref().unwrap_or("unknown");
                let state = format!("ready, agent version {version}");
                lines.push(Finding::ok(format!("backend {name}"), state));
            } else if findings.program.is_some() && !self.loaded.agents.is_profile(&name) {
                let reasons = short_line(&findings.reasons(), MAX_REASONS_CHARS);
                lines.push(Finding::ok(
                    format!("backend {name}"),
                    format!("not available: {reasons}"),
                ));
            } else if self.loaded.agents.is_profile(&name) {
                profiles += 1;
            } else {
                idle.push(name);
            }
        }
        let extensions =
            self.loaded.policies.list().into_iter().chain(self.loaded.observers.list());
        lines.extend(extensions.map(|extension| {
            let (kind, about) = (extension.kind.word(), extension.descriptor);
            let said = format!("version {}: {}", about.version, about.description);
            Finding::ok(format!("{kind} {}", about.name), said)
        }));
        let idle: Vec<&str> = idle.iter().map(String::as_str).collect();
        lines.extend(
            survey::unusable(&idle, profiles).map(|says| Finding::ok("other backends", says)),
        );
        lines
    }
}

/// Returns the turns that agents asked for at later times, and the problems in their file.
fn later_turns(workspace: &Workspace) -> (Vec<Finding>, Vec<Finding>) {
    const SUBJECT: &str = "later turns of agents";
    const FILE: &str = "state/agent-schedules.md";
    let hint = "correct or remove the line in CONFIG_DIR/state/agent-schedules.md";
    let (notes, now) = (&workspace.state.agent_schedules, Timestamp::now());
    let problem = |text: String| Finding::warning(SUBJECT, text).with_hint(hint);
    let mut problems: Vec<Finding> = notes.warnings().into_iter().map(problem).collect();
    let mut facts = Vec::new();
    for turn in notes.all() {
        let AgentSchedule { id, lane, until, .. } = &turn;
        let Some(next) = turn.next else { continue };
        let times = turn.cron.as_ref().map(|CronTimes { expression, zone }| {
            let is_valid = expression.parse::<Cron>().is_ok() && TimeZone::get(zone).is_ok();
            (is_valid, short_line(&format!(", at `{expression}` ({zone})"), 120))
        });
        if times.as_ref().is_some_and(|(is_valid, _)| !is_valid) {
            problems.push(problem(format!(
                "{FILE}: the times or the time zone of `{id}` are not valid; it ends after its next turn"
            )));
        }
        if now > *until {
            problems.push(problem(format!(
                "{FILE}: `{id}` is dropped, because its time passed at {until}"
            )));
        }
        let times = times.map(|(_, times)| times).unwrap_or_default();
        let shown = format!("{lane}{times}, next at {next} (id `{id}`)");
        facts.push(Finding::ok("later turn of an agent", shown));
    }
    (facts, problems)
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
