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

use clap::Args;

use self::report::DoctorReport;
use super::context::{block_on_command, start_log_with, with_settings};
use crate::cli::Common;
use crate::startup::settings::OperatorSettings;
use crate::startup::{Purpose, confinement, exposure, surroundings, survey};
use crate::terminal::{self, OutputStyle};
use aetheel_model::choice::LogFormat;
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::redact::Redactor;

/// Arguments of `aetheel doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Make no network requests
    #[arg(long)]
    offline: bool,
}

impl DoctorArgs {
    /// Runs the command. Returns the exit code.
    pub(super) fn run(self) -> u8 {
        with_settings(&self.common, None, |settings| block_on_command(examine(settings, &self)))
    }
}

/// Runs all checks, prints the report, and returns the exit code.
async fn examine(settings: OperatorSettings, args: &DoctorArgs) -> Result<u8, u8> {
    let OperatorSettings { config, variables, redactor, .. } = &settings;
    start_log_with(LogFormat::Human, "off", redactor)?;
    let mut report = DoctorReport::default();
    self::settings(&mut report, &settings);
    if settings.is_unreadable {
        return Ok(print(&report, args.json, redactor));
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
    cluster::examine(&mut report, config, args.offline).await;
    if args.offline {
        report.ok("discord", "not asked: --offline");
    } else {
        discord::examine(&mut report, config, redactor).await;
    }
    Ok(print(&report, args.json, redactor))
}

fn print(report: &DoctorReport, json: bool, redactor: &Redactor) -> u8 {
    let text = match json {
        true => report.json(redactor),
        false => report.text(terminal::verbosity(), OutputStyle::for_stdout(), redactor),
    };
    terminal::print(&text);
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
