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

use self::report::{DoctorReport, fault, warning};
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
    pub(super) fn run(self) -> u8 {
        with_settings(&self.common, None, |settings| block_on_command(examine(settings, &self)))
    }
}

/// Runs all checks, prints the report, and returns the exit code.
async fn examine(settings: OperatorSettings, args: &DoctorArgs) -> Result<u8, u8> {
    let OperatorSettings { config, variables, redactor, .. } = &settings;
    start_log_with(LogFormat::Human, "off", redactor)?;
    let mut report = DoctorReport::default();
    report.add(self::settings(&settings));
    if settings.is_unreadable {
        return Ok(print(&report, args.json, redactor));
    }
    report.add(machine::examine(config, variables, settings.env_file.as_deref()));
    report.add(machine::holder(config).await);
    report.add(surroundings::examine(config, variables, redactor, Purpose::Check));
    report.add(survey::files(config, &settings.webhook_secrets).into_iter().map(|finding| {
        let hint = "correct the line; until then, that entry is ignored";
        Finding { level: FindingLevel::Warning, ..finding }.or_hint(hint)
    }));
    report.add(survey::limits(config));
    report.add(survey::without_channel(config));
    let (found, backends) = agents::examine(config, variables, &settings.unknown_variables()).await;
    report.add(found);
    report.add(drift::examine(config, &backends));
    report.add(lost_replies::examine(config));
    #[cfg(feature = "cluster")]
    report.add(cluster::examine(config, args.offline).await);
    report.add(match args.offline {
        true => vec![Finding::ok("discord", "not asked: --offline")],
        false => discord::examine(config, redactor).await,
    });
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

/// Returns faults and warnings of the settings, and other users who can read them.
fn settings(settings: &OperatorSettings) -> Vec<Finding> {
    let faults = settings.faults.iter().map(|found| {
        let hint = "the checks below use the default values of these settings; docs/configuration.md describes every setting";
        fault("settings", found.to_string(), hint)
    });
    let hint = "docs/configuration.md describes how env files are read";
    let warnings = settings.warnings.iter().map(|warning| warning.clone().or_hint(hint));
    let mut found: Vec<Finding> = faults.chain(warnings).collect();
    let is_readable = found.is_empty();
    let folder = &settings.folder;
    let says = format!("{}: {}", folder.path.display(), folder.reason);
    found.push(match folder.hint() {
        None => Finding::ok("configuration", says),
        Some(hint) => warning("configuration", says, hint),
    });
    found.extend(is_readable.then(|| Finding::ok("settings", "every value can be read")));
    let confined =
        confinement::probe_sandbox(&settings.config).is_ok_and(|sandbox| sandbox.is_on());
    let exposed = exposure::warnings(&settings.secret_files, confined);
    let is_exposed = !exposed.is_empty();
    found.extend(exposed);
    found.extend((!is_exposed).then(|| Finding::ok("secrets", "in no file that agents can read")));
    found
}
