//! `aetheel rehearse`: checks whether this program could take over from the running gateway. It
//! reads everything that it would take over (settings, state, recordings), and changes nothing.
//!
//! The current components replay the recordings, and their actions are compared with the recorded
//! ones. Tested by the tests here and by `tests/gateway/upgrade.rs`.

mod facts;
mod recordings;
mod report;

use std::collections::BTreeSet;
use std::io::Write as _;

use self::recordings::RehearsedRecording;
use self::report::RehearsalReport;
use crate::cli::exit;
use crate::finding::Finding;
use crate::progress;
use crate::startup::running::gateway_of;
use crate::startup::settings::OperatorSettings;
use crate::startup::{PreparedStart, Purpose};
use crate::terminal::{OutputStyle, fail};
use crate::workspace::{self, Components};
use aetheel_model::choice::LogFormat;
use aetheel_runtime::log;

pub(super) struct RehearseOptions {
    /// Largest number of recordings to replay.
    pub(super) recordings: usize,
    /// Whether to print the report as JSON.
    pub(super) json: bool,
}

pub(super) async fn run(settings: OperatorSettings, wish: RehearseOptions) -> u8 {
    if let Err(fault) = log::start(LogFormat::Human, "off", settings.redactor.clone()) {
        fail(&fault.to_string());
        return exit::CONFIG;
    }
    let redactor = settings.redactor.clone();
    let report = rehearse(settings, wish.recordings).await;
    let text = match serde_json::to_string_pretty(&report) {
        Ok(text) if wish.json => text + "\n",
        _ => report.page(OutputStyle::for_stdout()),
    };
    // Write errors are ignored: stdout may be closed. The exit code reports the result.
    let _ = std::io::stdout().write_all(redactor.redact(text).as_bytes());
    report.code()
}

async fn rehearse(settings: OperatorSettings, most: usize) -> RehearsalReport {
    let state = workspace::inspect(&settings.config.config_dir).await;
    let folder = settings.config.recordings_dir.clone();
    let gateway = gateway_of(&settings.config);
    let serving = match gateway {
        Some(_) => Components::new(&settings.config.config_dir).last(),
        None => Vec::new(),
    };
    let serving: BTreeSet<String> = serving.into_iter().map(|last| last.digest).collect();
    let prepared = match PreparedStart::prepare(settings, Purpose::Rehearse).await {
        Ok(prepared) => prepared,
        Err(refused) => return RehearsalReport::new(refused.faults, Vec::new(), state, Vec::new()),
    };
    let found = prepared.describe().await;
    let (mut faults, mut warnings) = (found.faults, found.warnings);
    if let Some(pid) = gateway {
        // These faults do not prevent a start, and the running gateway has them too.
        let known = faults.drain(..);
        warnings.extend(known.map(|fault| {
            let message =
                format!("{fault} (left out; the running gateway, process {pid}, works without it)");
            Finding::warning(fault.subject, message)
        }));
    }
    let agents = prepared.agents();
    let reading = recordings::rehearse(&*agents, &folder, most, &serving);
    let rows: Vec<RehearsedRecording> =
        progress::with_spinner("replaying the recordings", reading).await.unwrap_or_else(|error| {
            let message = format!("RECORDINGS_DIR: cannot list {}: {error}", folder.display());
            faults.push(Finding::invalid("RECORDINGS_DIR", message));
            Vec::new()
        });
    RehearsalReport::new(faults, warnings, state, rows)
}
