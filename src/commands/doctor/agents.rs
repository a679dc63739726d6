//! Checks the components and their agents.

use std::collections::HashMap;
use std::time::Duration;

use super::report::DoctorReport;
use crate::commands::listing::{BackendListing, BackendRow};
use crate::progress;
use crate::startup::{LoadedBackends, MAX_REASONS_CHARS, survey, unknown};
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::plain::short_line;
use aetheel_settings::Config;

/// Time limit; compiling all components takes this long on a slow machine.
const EXAMINE_TIMEOUT: Duration = Duration::from_secs(120);

/// Loads all components like the gateway, including their self-tests, and examines all agents.
/// Returns the backends.
pub(super) async fn examine(
    report: &mut DoctorReport,
    config: &Config,
    variables: &HashMap<String, String>,
    unplaced: &[(String, String)],
) -> Vec<BackendRow> {
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
            faults.into_iter().for_each(|fault| {
                let fault = Finding { subject: "backends".to_owned(), ..fault };
                report.add(fault.or_hint("nothing can run until this is fixed"));
            });
            return Vec::new();
        }
        Err(_) => {
            let says = format!("not finished within {} s", EXAMINE_TIMEOUT.as_secs());
            report.fault(
                "backends",
                says,
                "an agent's version probe hangs, or the machine is busy; try again",
            );
            return Vec::new();
        }
    };
    for stranger in strangers {
        report.add(stranger.or_hint("remove it, or name it in AGENT_ENV"));
    }
    for fault in lanes {
        report.add(fault.or_hint("change the entry"));
    }
    if cgroups {
        report.ok("cgroups", "each run gets its own cgroup");
    } else {
        let hint = "under systemd, add `Delegate=cpu memory pids` to the unit; otherwise no action is needed";
        let says = "no own cgroup: leftover processes of agents are found by their parent process";
        report.note("cgroups", says, hint);
    }
    report.ok(
        "trust",
        match listing.trust {
            "any" => "any backend file may serve (BACKEND_TRUST)".to_owned(),
            level => format!("only {level} backend files serve (BACKEND_TRUST)"),
        },
    );
    for refused in &listing.refused {
        report.add(Finding { level: FindingLevel::Warning, ..refused.clone() });
    }
    let unused: Vec<&BackendRow> =
        listing.backends.iter().filter(|row| !add_backend(report, row)).collect();
    unused_backends(report, &unused);
    add_default_backend(report, &listing);
    listing.backends
}

/// Adds the lines about a backend. Returns `false` if it is not in use and only counted.
fn add_backend(report: &mut DoctorReport, row: &BackendRow) -> bool {
    let about = format!("backend {}", row.name);
    let standing =
        row.standing.as_ref().map(|standing| format!(" and {standing}")).unwrap_or_default();
    let digest = row.digest.get(..12).unwrap_or(&row.digest);
    let component = format!("{} {} ({digest}) is valid{standing}", row.component, row.version);
    if let Some(choice) = row.selection() {
        report.ok(about.as_str(), format!("serves from {choice}"));
    }
    let agent = match (&row.program_path, &row.agent_version) {
        (Some(path), Some(version)) => format!("agent {version} at {}", path.display()),
        (Some(path), None) => format!("agent at {}", path.display()),
        (None, _) => "no agent of its own".to_owned(),
    };
    if row.available {
        report.ok(about.as_str(), format!("{component}; {agent} can work"));
    } else if row.default {
        report.fault(
            about.as_str(),
            format!("{component}, but it is the default backend and cannot work"),
            row.reasons.join("; "),
        );
    } else if row.program_path.is_some() && row.name == row.component {
        let reasons = short_line(&row.reasons.join("; "), MAX_REASONS_CHARS);
        report.ok(about.as_str(), format!("{component}; not in use here: {reasons}"));
    } else {
        return false;
    }
    // Warnings about unusable agents are left out.
    for warning in row.warnings.iter().filter(|_| row.available) {
        report.warning(
            about.as_str(),
            warning.to_string(),
            "docs/backends.md describes the features of each backend",
        );
    }
    true
}

/// Adds the lines about the default backend, and the warnings about the files of backends.
fn add_default_backend(report: &mut DoctorReport, listing: &BackendListing) {
    match &listing.default {
        Some(default) => report.ok(
            "default backend",
            listing
                .detected
                .as_ref()
                .map_or(default.clone(), |why| format!("{default} (auto: {why})")),
        ),
        None => {
            let hint = "set AGENT_BACKEND to one of the backends above, or to `auto`";
            let undecided = listing.warnings.iter().find(|finding| finding.level.is_fault());
            let fault = undecided
                .map_or("there is no default backend".to_owned(), |finding| finding.to_string());
            report.fault("default backend", fault, hint);
        }
    }
    for warning in listing.warnings.iter().filter(|finding| !finding.level.is_fault()) {
        let hint = "docs/configuration.md describes the settings";
        report.warning("backends", warning.to_string(), hint);
    }
}

/// Adds one line about all backends that nobody uses and whose agents cannot work here.
fn unused_backends(report: &mut DoctorReport, unused: &[&BackendRow]) {
    let (profiles, own): (Vec<&BackendRow>, Vec<&BackendRow>) =
        unused.iter().partition(|row| row.name != row.component);
    let own: Vec<&str> = own.iter().map(|row| row.name.as_str()).collect();
    if let Some(says) = survey::unusable(&own, profiles.len()) {
        report.ok("other backends", says);
    }
}
