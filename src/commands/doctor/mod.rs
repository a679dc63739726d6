//! `aetheel doctor`: checks the settings and the environment of the gateway (`check` covers only
//! the settings). It changes nothing and prints no secrets.
//!
//! Every line is ok, a note, a warning or a fault; all but the first have a hint. A note needs no
//! action. Unreachable Discord is a fault, but all other checks still run. Tested by `tests/gateway/doctor.rs`.

mod agents;
#[cfg(feature = "cluster")]
mod cluster;
mod discord;
mod drift;
mod lost_replies;
mod machine;
mod report;

use std::io::Write as _;

use self::report::DoctorReport;
use crate::cli::exit;
use crate::startup::settings::OperatorSettings;
use crate::startup::{Purpose, confinement, exposure, surroundings, survey};
use crate::terminal::{self, OutputStyle, print_stderr};
use aetheel_model::choice::LogFormat;
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::redact::Redactor;
use aetheel_runtime::log;

pub(super) struct DoctorOptions {
    /// Whether to print the report as JSON.
    pub json: bool,
    /// Whether to skip all checks that need the network.
    pub offline: bool,
}

/// Runs all checks, prints the report, and returns the exit code.
pub(super) async fn examine(settings: OperatorSettings, wish: DoctorOptions) -> u8 {
    let OperatorSettings { config, variables, redactor, .. } = &settings;
    if let Err(fault) = log::start(LogFormat::Human, "off", redactor.clone()) {
        print_stderr(&format!("error: {fault}"));
        return exit::CONFIG;
    }
    let mut report = DoctorReport::default();
    self::settings(&mut report, &settings);
    if settings.is_unreadable {
        return print(&report, wish.json, redactor);
    }
    machine::examine(&mut report, config, variables, settings.env_file.as_deref());
    machine::holder(&mut report, config).await;
    let found = surroundings::examine(config, variables, redactor, Purpose::Check);
    found.into_iter().for_each(|finding| report.add(finding));
    for finding in survey::files(config, &settings.webhook_secrets) {
        let hint = "correct the line; until then, that entry is ignored";
        report.add(Finding { level: FindingLevel::Warning, ..finding }.or_hint(hint));
    }
    survey::limits(config).into_iter().for_each(|finding| report.add(finding));
    survey::without_channel(config).into_iter().for_each(|finding| report.add(finding));
    let backends =
        agents::examine(&mut report, config, variables, &settings.unknown_variables()).await;
    drift::examine(&mut report, config, &backends);
    lost_replies::examine(&mut report, config);
    #[cfg(feature = "cluster")]
    cluster::examine(&mut report, config, wish.offline).await;
    if wish.offline {
        report.ok("discord", "not asked: --offline");
    } else {
        discord::examine(&mut report, config, redactor).await;
    }
    print(&report, wish.json, redactor)
}

fn print(report: &DoctorReport, json: bool, redactor: &Redactor) -> u8 {
    let text = match json {
        true => report.json(redactor),
        false => report.text(terminal::verbosity(), OutputStyle::for_stdout(), redactor),
    };
    // Write errors are ignored: stdout may be closed. The exit code reports the result.
    let _ = std::io::stdout().write_all(text.as_bytes());
    report.code()
}

/// Reports faults and warnings of the settings, and other users who can read them.
fn settings(report: &mut DoctorReport, settings: &OperatorSettings) {
    for fault in &settings.faults {
        report.fault(
            "settings",
            fault.to_string(),
            "the checks below use the default values of these settings; docs/configuration.md describes every setting",
        );
    }
    for warning in &settings.warnings {
        report
            .add(warning.clone().or_hint("docs/configuration.md describes how env files are read"));
    }
    let folder = &settings.folder;
    let says = format!("{}: {}", folder.path.display(), folder.reason);
    match folder.hint() {
        None => report.ok("configuration", says),
        Some(hint) => report.warning("configuration", says, hint),
    }
    if settings.faults.is_empty() && settings.warnings.is_empty() {
        report.ok("settings", "every value can be read");
    }
    let confined =
        confinement::probe_sandbox(&settings.config).is_ok_and(|sandbox| sandbox.is_on());
    let exposed = exposure::warnings(&settings.secret_files, confined);
    if exposed.is_empty() {
        report.ok("secrets", "in no file that agents can read");
    }
    exposed.into_iter().for_each(|finding| report.add(finding));
}
