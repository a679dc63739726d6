//! `aetheel check`: checks whether the gateway could start with the given settings.

use std::path::Path;

use serde::Serialize;

use super::context::{block_on_command, start_log, with_settings};
use crate::cli::{JsonArgs, exit};
use crate::startup::settings::OperatorSettings;
use crate::startup::{Description, PreparedStart, Purpose, StartRefusal};
use crate::terminal::{self, Verbosity, line};
use aetheel_model::finding::Finding;
use aetheel_store::workspace;

const NO_TOKEN: &str =
    "DISCORD_BOT_TOKEN is not set: `aetheel console` works, `aetheel run` would not";
/// Subject of the findings about state files.
pub(super) const STATE: &str = "state";
/// Hint for messages without a hint of their own.
const DEFAULT_HINT: &str = "`aetheel doctor` checks more";

/// The findings as JSON. Fields may be added, but never change or disappear.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct CheckReport {
    /// Whether the gateway would start.
    starts: bool,
    faults: usize,
    warnings: usize,
    lines: Vec<Finding>,
}

pub(super) fn run(args: &JsonArgs) -> u8 {
    with_settings(&args.common, None, |settings| block_on_command(check(settings, args.json)))
}

/// Prints the findings and returns the exit code.
async fn check(settings: OperatorSettings, json: bool) -> Result<u8, u8> {
    start_log(&settings.redactor)?;
    let redactor = settings.redactor.clone();
    let token = settings.config.discord_bot_token.is_some();
    let prepared = PreparedStart::prepare(settings, Purpose::Check).await.map_err(|refused| {
        if json {
            terminal::json(&CheckReport::from_refusal(&refused));
            return refused.code;
        }
        refused.print()
    })?;
    let mut found = prepared.describe().await;
    found.faults.extend(state_faults(&prepared.config.config_dir).await);
    let code = if found.faults.is_empty() { exit::OK } else { exit::CONFIG };
    if json {
        let report = CheckReport::from_description(&found, token);
        line(&redactor.redact(serde_json::to_string_pretty(&report).unwrap_or_default()));
        return Ok(code);
    }
    let quiet = terminal::verbosity() == Verbosity::Quiet;
    if !quiet {
        found
            .facts
            .iter()
            .for_each(|Finding { subject, message, .. }| line(&format!("{subject}: {message}")));
    }
    found.warnings.iter().for_each(|warning| line(&format!("warning: {warning}")));
    found.faults.iter().for_each(|fault| line(&format!("fault: {fault}")));
    if !token && !quiet {
        line(&format!("note: {NO_TOKEN}"));
    }
    if !quiet || found.warnings.len() + found.faults.len() > 0 {
        line(&summary(&found));
    }
    Ok(code)
}

/// Returns a finding for each part of the state files that cannot be read. Such parts stay in the
/// files.
async fn state_faults(folder: &Path) -> Vec<Finding> {
    let faults = workspace::inspect(folder).await;
    faults.into_iter().map(|fault| Finding::left_out(STATE, fault)).collect()
}

impl CheckReport {
    fn from_description(found: &Description, token: bool) -> Self {
        let mut lines = found.facts.clone();
        lines.extend((!token).then(|| Finding::ok("discord token", NO_TOKEN)));
        lines.extend(with_hints(&found.warnings));
        lines.extend(with_hints(&found.faults));
        let (faults, warnings) = (found.faults.len(), found.warnings.len());
        Self { starts: true, faults, warnings, lines }
    }

    fn from_refusal(refused: &StartRefusal) -> Self {
        let lines = with_hints(&refused.warnings).chain(with_hints(&refused.faults)).collect();
        let (faults, warnings) = (refused.faults.len(), refused.warnings.len());
        Self { starts: false, faults, warnings, lines }
    }
}

fn with_hints(findings: &[Finding]) -> impl Iterator<Item = Finding> {
    findings.iter().cloned().map(|finding| finding.or_hint(DEFAULT_HINT))
}

/// Returns the last line of the text output.
fn summary(found: &Description) -> String {
    let warnings = match found.warnings.len() {
        0 => String::new(),
        1 => "1 warning".to_owned(),
        count => format!("{count} warnings"),
    };
    let faults = match found.faults.len() {
        0 if warnings.is_empty() => return "no problems found".to_owned(),
        0 => return format!("{warnings}: it would start; read the warnings above"),
        1 => "1 fault: it would start without the part named above".to_owned(),
        count => format!("{count} faults: it would start without the parts named above"),
    };
    if warnings.is_empty() { faults } else { format!("{warnings}, {faults}") }
}
