//! `aetheel simulate-crash`: cuts a recording at many points, and checks whether a restarted
//! gateway could rebuild the link from there.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::resolve;
use aetheel::cli::{SimulateCrashArgs, exit};
use aetheel::commands::context::start_log;
use aetheel::commands::kit::KitError;
use aetheel::progress;
use aetheel::startup::settings::OperatorSettings;
use aetheel::startup::{LoadedBackends, StartRefusal};
use aetheel::terminal::OutputStyle;
use aetheel_model::plain::{counted, with_causes};
use aetheel_recording::case::Case;
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::crash::{SimulatedCrash, crash_points, simulate_crash};
use aetheel_recording::{Backend, EntryKind, RecordingEntry};
use aetheel_turn::Backends as _;

/// Largest number of points that are printed as text.
const MAX_SHOWN: usize = 10;

/// The result of all simulated crashes. Fields may be added, but never change or disappear.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct CrashReport {
    recording: PathBuf,
    backend: String,
    version: String,
    /// Whether the component that made the recording is still there and read it.
    same_component: bool,
    inputs: usize,
    checkpoints: usize,
    rebuilt: usize,
    failed: usize,
    /// Crashes after which the guest was rebuilt from a checkpoint.
    from_checkpoint: usize,
    /// The highest number of inputs that were replayed after a crash.
    max_replayed: usize,
    /// The longest time until a guest was rebuilt.
    max_ms: u64,
    points: Vec<CrashRow>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct CrashRow {
    /// The number of the last line of the recording before the crash.
    line: usize,
    /// The line of the checkpoint from which the guest was rebuilt. `None` for the beginning.
    checkpoint: Option<usize>,
    replayed: usize,
    ms: u64,
    /// Why the guest could not be rebuilt.
    failure: Option<String>,
    hint: Option<&'static str>,
}

pub(crate) async fn run(settings: OperatorSettings, args: &SimulateCrashArgs) -> u8 {
    let redactor = settings.redactor.clone();
    if let Err(code) = start_log(&redactor) {
        return code;
    }
    let case = match resolve::turn_case(&args.recording, &settings.config).await {
        Ok(case) => case,
        Err(unable) => return unable.report(),
    };
    let loaded = match LoadedBackends::load(&settings.config, &settings.variables).await {
        Ok(loaded) => loaded,
        Err(faults) => return StartRefusal::new(exit::UNAVAILABLE, faults).print(),
    };
    let name = &case.tape.header.backend;
    // A restarted gateway first tries the component that made the recording.
    let former = loaded.agents.by_digest(name, &case.tape.header.digest).await;
    let Some(backend) = former.or_else(|| loaded.agents.get(name)) else {
        let text = format!("{}: its backend `{name}` is not there", case.path.display());
        let hint = Some("`aetheel backend list` shows the backends and why others are refused");
        return KitError { code: exit::UNAVAILABLE, text, hint }.report();
    };
    let message = "simulating crashes";
    let report = progress::with_spinner(message, simulate(&*backend, &case, args.points)).await;
    let text = match serde_json::to_string_pretty(&report) {
        Ok(text) if args.json => text + "\n",
        _ => report.page(OutputStyle::for_stdout()),
    };
    // Write errors are ignored: stdout may be closed. The exit code reports the result.
    let _ = std::io::stdout().write_all(redactor.redact(text).as_bytes());
    if report.failed == 0 { exit::OK } else { exit::FAILED }
}

async fn simulate(backend: &dyn Backend, case: &Case, points: usize) -> CrashReport {
    let (entries, lines) = (&case.tape.entries, &case.tape.lines);
    let mut rows = Vec::new();
    for at in crash_points(entries, Some(points).filter(|points| *points > 0)) {
        let SimulatedCrash { at, checkpoint, replayed, took, failure } =
            simulate_crash(backend, entries, at).await;
        rows.push(CrashRow {
            line: lines[at - 1],
            checkpoint: checkpoint.map(|index| lines[index]),
            replayed,
            ms: milliseconds(took),
            hint: failure.as_ref().map(hint),
            failure: failure.as_ref().map(|failure| with_causes(failure)),
        });
    }
    let header = &case.tape.header;
    let failed = rows.iter().filter(|row| row.failure.is_some()).count();
    let is_checkpoint = |entry: &&RecordingEntry| matches!(entry.kind, EntryKind::Checkpoint(_));
    CrashReport {
        recording: case.path.clone(),
        backend: header.backend.clone(),
        version: backend.descriptor().version.clone(),
        same_component: backend.generation().digest == header.digest,
        inputs: entries.iter().filter(|entry| entry.input().is_some()).count(),
        checkpoints: entries.iter().filter(is_checkpoint).count(),
        rebuilt: rows.len() - failed,
        failed,
        from_checkpoint: rows.iter().filter(|row| row.is_from_checkpoint()).count(),
        max_replayed: rows.iter().map(|row| row.replayed).max().unwrap_or_default(),
        max_ms: rows.iter().map(|row| row.ms).max().unwrap_or_default(),
        points: rows,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn hint(failure: &RebuildError) -> &'static str {
    match failure {
        RebuildError::Incomplete(_) | RebuildError::Unreadable => {
            "after a crash here, the agent is ended and its turn is handled as after a restart of the machine"
        }
        RebuildError::Differs => {
            "`aetheel backend replay BACKEND RECORDING` shows the actions of the component that serves; install the one that made the recording, or finish running turns before you replace it"
        }
        _ => "`aetheel backend replay BACKEND RECORDING` shows where the component fails",
    }
}

impl CrashRow {
    fn is_from_checkpoint(&self) -> bool {
        self.failure.is_none() && self.checkpoint.is_some()
    }
}

impl CrashReport {
    fn page(&self, style: OutputStyle) -> String {
        let made = if self.same_component { "" } else { ", which did not make the recording" };
        let mut text = format!(
            "{}: {}, {}; read by {} {}{made}\n",
            self.recording.display(),
            counted(self.inputs, "input"),
            counted(self.checkpoints, "checkpoint"),
            self.backend,
            self.version,
        );
        let mut hints: Vec<&str> = Vec::new();
        for row in self.points.iter().filter(|row| row.failure.is_some()).take(MAX_SHOWN) {
            let why = row.failure.as_deref().unwrap_or_default();
            let line = format!("after line {}: not rebuilt: {why}", row.line);
            text.push_str(&format!("{}\n", style.bad(&line)));
            hints.extend(row.hint.filter(|hint| !hints.contains(hint)));
        }
        if self.failed > MAX_SHOWN {
            let more = self.failed - MAX_SHOWN;
            text.push_str(&format!("{more} more could not be rebuilt; `--json` lists all\n"));
        }
        for hint in hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        let all = self.rebuilt + self.failed;
        let summary =
            format!("{}: {} rebuilt, {} not", counted(all, "point"), self.rebuilt, self.failed);
        let summary = if self.failed == 0 { style.good(&summary) } else { style.bad(&summary) };
        text.push_str(&format!(
            "{summary}\n{} from a checkpoint; at most {} replayed, in at most {} ms\n",
            self.from_checkpoint,
            counted(self.max_replayed, "input"),
            self.max_ms,
        ));
        text
    }
}
