//! `aetheel doctor`: `check` looks at the settings, this at what surrounds them. Changes nothing
//! and prints no secret.
//!
//! Every line is ok, a warning or a fault, the last two with what to do. Discord out of reach is a
//! fault, and everything else is looked at all the same. Pinned by `tests/gateway/doctor.rs`.

mod agents;
mod cluster;
mod discord;
mod drift;
mod lost;
mod machine;
mod report;

use std::io::Write as _;

use self::report::Report;
use crate::cli::exit;
use crate::config::LogFormat;
use crate::redact::Redactor;
use crate::startup::finding::{Finding, Level};
use crate::startup::settings::Settings;
use crate::startup::{Purpose, confinement, exposure, surroundings, survey};
use crate::telemetry;
use crate::terminal::{Paper, say};

/// The operator's choice of what to look at, and how to print it.
pub(super) struct Wish {
    /// Print the report as JSON.
    pub json: bool,
    /// Ask nobody over the network.
    pub offline: bool,
}

/// Looks at everything and tells it; returns the exit code.
pub(super) async fn examine(settings: Settings, wish: Wish) -> u8 {
    let Settings { config, variables, redactor, .. } = &settings;
    if let Err(fault) = telemetry::start(LogFormat::Human, "off", redactor.clone()) {
        say(&format!("error: {fault}"));
        return exit::CONFIG;
    }
    let mut report = Report::default();
    self::settings(&mut report, &settings);
    if settings.is_unreadable {
        return print(&report, wish.json, redactor);
    }
    machine::examine(&mut report, config, variables, settings.env_file.as_deref());
    let found = surroundings::examine(config, variables, redactor, Purpose::Look);
    found.into_iter().for_each(|finding| report.add(finding));
    for fault in survey::files(config, &settings.webhook_secrets) {
        report.warning("files", fault, "mend the line: what it is about is left out");
    }
    for warning in survey::unplaced(config) {
        let hint = "name one with `channel`, or set OUTPUT_CHANNEL_ID";
        report.add(Finding::from_message(Level::Warning, "schedules", &warning, hint));
    }
    let backends = agents::examine(&mut report, config, variables, &settings.unplaced).await;
    drift::examine(&mut report, config, &backends);
    lost::examine(&mut report, config);
    cluster::examine(&mut report, config, wish.offline).await;
    if wish.offline {
        report.ok("discord", "not asked: --offline");
    } else {
        discord::examine(&mut report, config, redactor).await;
    }
    print(&report, wish.json, redactor)
}

fn print(report: &Report, json: bool, redactor: &Redactor) -> u8 {
    let text = report.text(json, Paper::of_stdout(), redactor);
    // A closed stdout has nobody to tell; the exit code still does.
    let _ = std::io::stdout().write_all(text.as_bytes());
    report.code()
}

/// Reports what is wrong with the settings themselves, and who else can read them.
fn settings(report: &mut Report, settings: &Settings) {
    for fault in &settings.faults {
        report.fault(
            "settings",
            fault.as_str(),
            "what follows was looked at with the defaults of these; docs/configuration.md describes every setting",
        );
    }
    for warning in &settings.warnings {
        report.warning(
            "settings",
            warning.as_str(),
            "docs/configuration.md says how env files are read",
        );
    }
    let folder = &settings.folder;
    let says = format!("{}: {}", folder.path.display(), folder.by);
    match folder.hint() {
        None => report.ok("configuration", says),
        Some(hint) => report.warning("configuration", says, hint),
    }
    if settings.faults.is_empty() && settings.warnings.is_empty() {
        report.ok("settings", "every value can be read");
    }
    let confined = confinement::raise(&settings.config).is_ok_and(|sandbox| sandbox.is_on());
    let exposed = exposure::warnings(&settings.secret_files, confined);
    if exposed.is_empty() {
        report.ok("secrets", "in no file that agents can read");
    }
    for warning in exposed {
        report.warning("secrets", warning, exposure::HINT);
    }
}
