//! Checks the components and their agents.

use std::collections::HashMap;
use std::time::Duration;

use super::report::{fault, note, warning};
use crate::commands::listing::{BackendListing, BackendRow};
use crate::progress;
use crate::startup::{LoadedBackends, MAX_REASONS_CHARS, survey, unknown};
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::plain::short_line;
use aetheel_settings::Config;

/// Time limit; compiling all components takes this long on a slow machine.
const EXAMINE_TIMEOUT: Duration = Duration::from_secs(120);

/// Loads all components like the gateway, including their self-tests, and examines all agents.
/// Returns the findings and the backends.
pub(super) async fn examine(
    config: &Config,
    variables: &HashMap<String, String>,
    unplaced: &[(String, String)],
) -> (Vec<Finding>, Vec<BackendRow>) {
    let looked = async {
        let loaded = LoadedBackends::load(config, variables).await?;
        let cgroups = loaded.custody.has_cgroups();
        let strangers = unknown::variables(unplaced, &*loaded.agents);
        let home = variables.get("HOME").map(String::as_str);
        let lanes = survey::lanes(config, &loaded.agents, home);
        Ok::<_, Vec<Finding>>((cgroups, strangers, lanes, BackendListing::load(loaded).await))
    };
    let looked = tokio::time::timeout(EXAMINE_TIMEOUT, looked);
    let looked = progress::with_spinner(survey::loading_message(config), looked).await;
    let (cgroups, strangers, lanes, listing) = match looked {
        Ok(Ok(looked)) => looked,
        Ok(Err(faults)) => {
            let of_backends = |fault| {
                let fault = Finding { subject: "backends".to_owned(), ..fault };
                fault.or_hint("nothing can run until this is fixed")
            };
            return (faults.into_iter().map(of_backends).collect(), Vec::new());
        }
        Err(_) => {
            let says = format!("not finished within {} s", EXAMINE_TIMEOUT.as_secs());
            let hint = "an agent's version probe hangs, or the machine is busy; try again";
            return (vec![fault("backends", says, hint)], Vec::new());
        }
    };
    let strangers =
        strangers.into_iter().map(|finding| finding.or_hint("remove it, or name it in AGENT_ENV"));
    let lanes = lanes.into_iter().map(|finding| finding.or_hint("change the entry"));
    let mut found: Vec<Finding> = strangers.chain(lanes).collect();
    found.push(if cgroups {
        Finding::ok("cgroups", "each run gets its own cgroup")
    } else {
        let hint = "under systemd, add `Delegate=cpu memory pids` to the unit; otherwise no action is needed";
        let says = "no own cgroup: leftover processes of agents are found by their parent process";
        note("cgroups", says, hint)
    });
    found.push(Finding::ok(
        "trust",
        match listing.trust {
            "any" => "any backend file may serve (BACKEND_TRUST)".to_owned(),
            level => format!("only {level} backend files serve (BACKEND_TRUST)"),
        },
    ));
    let refused = listing.refused.iter().cloned();
    found.extend(refused.map(|finding| Finding { level: FindingLevel::Warning, ..finding }));
    found.extend(listing.backends.iter().flat_map(backend));
    let unused: Vec<&BackendRow> = listing.backends.iter().filter(|row| !is_used(row)).collect();
    found.extend(unused_backends(&unused));
    found.extend(default_backend(&listing));
    (found, listing.backends)
}

/// Returns whether a backend gets lines of its own, because it is in use or its program is installed.
fn is_used(row: &BackendRow) -> bool {
    row.available || row.default || row.program_path.is_some() && row.name == row.component
}

/// Returns the lines about a backend. Backends that are not in use are only counted.
fn backend(row: &BackendRow) -> Vec<Finding> {
    let about = format!("backend {}", row.name);
    let trust = row.trust.as_ref().map(|trust| format!(" and {trust}")).unwrap_or_default();
    let digest = row.digest.get(..12).unwrap_or(&row.digest);
    let component = format!("{} {} ({digest}) is valid{trust}", row.component, row.version);
    let selected = row.selection();
    let selected =
        selected.map(|choice| Finding::ok(about.as_str(), format!("serves from {choice}")));
    let agent = match (&row.program_path, &row.agent_version) {
        (Some(path), Some(version)) => format!("agent {version} at {}", path.display()),
        (Some(path), None) => format!("agent at {}", path.display()),
        (None, _) => "no agent of its own".to_owned(),
    };
    let state = is_used(row).then(|| match (row.available, row.default) {
        (true, _) => Finding::ok(about.as_str(), format!("{component}; {agent} can work")),
        (false, true) => fault(
            about.as_str(),
            format!("{component}, but it is the default backend and cannot work"),
            row.reasons.join("; "),
        ),
        (false, false) => {
            let reasons = short_line(&row.reasons.join("; "), MAX_REASONS_CHARS);
            Finding::ok(about.as_str(), format!("{component}; not in use here: {reasons}"))
        }
    });
    // Warnings about unusable agents are left out.
    let warnings = row.warnings.iter().filter(|_| row.available).map(|finding| {
        let hint = "docs/agents.md describes the features of each agent";
        warning(about.as_str(), finding.to_string(), hint)
    });
    selected.into_iter().chain(state).chain(warnings).collect()
}

/// Returns the line about the default backend, and the warnings about the files of backends.
fn default_backend(listing: &BackendListing) -> Vec<Finding> {
    let default = match &listing.default {
        Some(default) => Finding::ok(
            "default backend",
            listing
                .detected
                .as_ref()
                .map_or(default.clone(), |why| format!("{default} (auto: {why})")),
        ),
        None => {
            let hint = "set AGENT_BACKEND to one of the backends above, or to `auto`";
            let undecided = listing.warnings.iter().find(|finding| finding.level.is_fault());
            let says = undecided
                .map_or("there is no default backend".to_owned(), |finding| finding.to_string());
            fault("default backend", says, hint)
        }
    };
    let warnings = listing.warnings.iter().filter(|finding| !finding.level.is_fault());
    let warnings = warnings.map(|finding| {
        let hint = "docs/configuration.md describes the settings";
        warning("backends", finding.to_string(), hint)
    });
    [default].into_iter().chain(warnings).collect()
}

/// Returns one line about all backends that nobody uses and whose agents cannot work here.
fn unused_backends(unused: &[&BackendRow]) -> Option<Finding> {
    let (profiles, own): (Vec<&BackendRow>, Vec<&BackendRow>) =
        unused.iter().partition(|row| row.name != row.component);
    let own: Vec<&str> = own.iter().map(|row| row.name.as_str()).collect();
    survey::unusable(&own, profiles.len()).map(|says| Finding::ok("other backends", says))
}
