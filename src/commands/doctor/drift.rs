//! Reports drift that the gateway recorded: output of agents that their backends do not know.

use std::collections::BTreeMap;

use super::report::DoctorReport;
use crate::commands::listing::BackendRow;
use aetheel_model::plain::{counted, with_causes};
use aetheel_settings::Config;
use aetheel_store::workspace::{Drift, StateFile};

/// Largest number of kinds that are listed per backend.
const MAX_NAMED_KINDS: usize = 5;
const HINT: &str = "docs/drift.md describes what to do; remove a line from state/drift.md to be notified of it again";

/// Reports the drift of each backend, newest first. It is a warning if the versions of the agent
/// and the component have not changed since.
pub(super) fn examine(report: &mut DoctorReport, config: &Config, backends: &[BackendRow]) {
    let met = match StateFile::<Drift>::read_folder(&config.config_dir) {
        Ok(met) => met,
        Err(error) => {
            return report.warning(
                "drift",
                with_causes(&error),
                "make state/drift.md readable, or remove it",
            );
        }
    };
    let mut by_backend: BTreeMap<String, Vec<Drift>> = BTreeMap::new();
    for drift in met {
        by_backend.entry(drift.key.backend.clone()).or_default().push(drift);
    }
    if by_backend.is_empty() {
        return report.ok("drift", "no agent printed anything that its backend does not know");
    }
    for (name, mut met) in by_backend {
        met.sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.key.cmp(&b.key)));
        let present = backends.iter().find(|row| row.name == name);
        let is_present = |drift: &Drift| {
            present.is_some_and(|row| {
                let version = row.agent_version.as_deref().unwrap_or("unknown");
                row.digest.starts_with(&drift.key.component) && drift.key.agent_version == version
            })
        };
        let (about, says) = (format!("drift of {name}"), summarize(&met));
        if met.iter().any(is_present) {
            report.warning(about, says, HINT);
        } else {
            report.ok(about, format!("with earlier versions: {says}"));
        }
    }
}

fn summarize(met: &[Drift]) -> String {
    let kinds = met.iter().take(MAX_NAMED_KINDS).map(|Drift { key, times, last, recording, .. }| {
        let (what, version, component) = (&key.what, &key.agent_version, &key.component);
        format!("{what}: {}, last {last:.0} (agent {version}, backend file {component}, recording {recording})", counted(*times, "time"))
    });
    let mut kinds: Vec<String> = kinds.collect();
    if met.len() > MAX_NAMED_KINDS {
        kinds.push(format!("and {} more in state/drift.md", met.len() - MAX_NAMED_KINDS));
    }
    kinds.join("; ")
}
