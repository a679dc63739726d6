//! Reports drift that the gateway recorded: output of agents that their backends do not know.

use std::collections::BTreeMap;

use super::report::warning;
use crate::commands::listing::BackendRow;
use aetheel_model::finding::Finding;
use aetheel_model::plain::{counted, with_causes};
use aetheel_settings::Config;
use aetheel_store::workspace::{Drift, StateFile};

/// Largest number of kinds that are listed per backend.
const MAX_NAMED_KINDS: usize = 5;
const HINT: &str = "docs/drift.md describes what to do; remove a line from state/drift.md to be notified of it again";

/// Reports the drift of each backend, newest first. It is a warning if the versions of the agent
/// and the component have not changed since.
pub(super) fn examine(config: &Config, backends: &[BackendRow]) -> Vec<Finding> {
    let met = match StateFile::<Drift>::read_folder(&config.config_dir) {
        Ok(met) => met,
        Err(error) => {
            let hint = "make state/drift.md readable, or remove it";
            return vec![warning("drift", with_causes(&error), hint)];
        }
    };
    let mut by_backend: BTreeMap<String, Vec<Drift>> = BTreeMap::new();
    for drift in met {
        by_backend.entry(drift.key.backend.clone()).or_default().push(drift);
    }
    if by_backend.is_empty() {
        let says = "no agent printed anything that its backend does not know";
        return vec![Finding::ok("drift", says)];
    }
    let of_backend = |(name, mut met): (String, Vec<Drift>)| {
        met.sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.key.cmp(&b.key)));
        let present = backends.iter().find(|row| row.name == name);
        let is_present = |drift: &Drift| {
            present.is_some_and(|row| {
                let version = row.agent_version.as_deref().unwrap_or("unknown");
                row.digest.starts_with(&drift.key.component) && drift.key.agent_version == version
            })
        };
        let (about, says) = (format!("drift of {name}"), summarize(&met));
        match met.iter().any(is_present) {
            true => warning(about, says, HINT),
            false => Finding::ok(about, format!("with earlier versions: {says}")),
        }
    };
    by_backend.into_iter().map(of_backend).collect()
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
