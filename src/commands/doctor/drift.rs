//! Drift: what agents said that their backends did not know, as a gateway wrote it down.

use std::collections::BTreeMap;

use super::report::Report;
use crate::commands::listing::Row;
use crate::config::Config;
use crate::plain::with_causes;
use crate::workspace::{Drift, DriftNotes};

/// Kinds named a backend.
const NAMED: usize = 5;
const HINT: &str = "docs/drift.md says what to do; a line taken out of state/drift.md is told of again when it comes again";

/// Tells it, newest first: a warning where the agent and the component are still the same.
pub(super) fn examine(report: &mut Report, config: &Config, backends: &[Row]) {
    let met = match DriftNotes::look(&config.config_dir) {
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
        return report.ok("drift", "no agent said anything that its backend does not know");
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
        let (about, says) = (format!("drift of {name}"), says(&met));
        if met.iter().any(is_present) {
            report.warning(about, says, HINT);
        } else {
            report.ok(about, format!("with other versions than today's: {says}"));
        }
    }
}

fn says(met: &[Drift]) -> String {
    let told = met.iter().take(NAMED).map(|Drift { key, times, last, recording, .. }| {
        let (what, version, component) = (&key.what, &key.agent_version, &key.component);
        format!("{what}: {times} times, last {last:.0} (agent {version}, component {component}, recording {recording})")
    });
    let mut told: Vec<String> = told.collect();
    if met.len() > NAMED {
        told.push(format!("and {} more in state/drift.md", met.len() - NAMED));
    }
    told.join("; ")
}
