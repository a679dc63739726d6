//! `aetheel backend compare`: replays recordings with the backends that serve, and compares their
//! actions with the recorded ones. Changes nothing. Tested by `tests/gateway/upgrade.rs`.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use aetheel::cli::{CompareArgs, exit};
use aetheel::commands::context::load_backends;
use aetheel::commands::kit::KitError;
use aetheel::startup::running::gateway_of;
use aetheel::startup::settings::OperatorSettings;
use aetheel::terminal::OutputStyle;
use aetheel::{progress, terminal};
use aetheel_model::plain::{counted, with_causes};
use aetheel_recording::comparison::{CompareError, TurnDifference, compare_recorded};
use aetheel_recording::{MAX_READ_BYTES, ParsedRecording, newest, open_turns};
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_settings::Config;
use aetheel_store::workspace::Components;
use aetheel_turn::Backends;

/// Time limit for all recordings.
const ALL_TIMEOUT: Duration = Duration::from_secs(80);

/// The result for all recordings. Fields may be added, but never change or disappear.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct CompareReport {
    /// Whether no recording shows harm.
    fit: bool,
    recordings: Vec<ComparedRecording>,
    counts: RecordingCounts,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct RecordingCounts {
    /// Compared recordings.
    read: usize,
    as_before: usize,
    otherwise: usize,
    unreadable: usize,
    skipped: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ComparedRecording {
    /// Its path, below the folder of recordings if it is there.
    recording: String,
    backend: Option<String>,
    /// Whether another version than the current one made the recording.
    by_another_component: bool,
    /// Whether the current version also serves in the running gateway.
    serves_now: bool,
    /// Whether one of its turns has not ended.
    goes_on: bool,
    #[serde(flatten)]
    reading: RecordingOutcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reading")]
enum RecordingOutcome {
    AsBefore,
    Otherwise {
        differences: Vec<TurnDifference>,
    },
    /// The backend fails, or a recorded answer is missing.
    Unreadable {
        differences: Vec<TurnDifference>,
    },
    Skipped {
        why: String,
    },
}

#[derive(Debug, thiserror::Error)]
enum SkipReason {
    #[error("it cannot be opened: {0}")]
    Open(#[from] io::Error),
    #[error("its backend `{0}` is not there")]
    NoBackend(String),
    #[error("there was no time left for it; use `--recordings N` to compare fewer")]
    Late,
    #[error(transparent)]
    Compare(#[from] CompareError),
}

pub(crate) async fn run(settings: OperatorSettings, args: &CompareArgs) -> u8 {
    let level = terminal::command_log_level();
    let (config, redactor, loaded) = match load_backends(settings, level).await {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let paths = match find(&config, args).await {
        Ok(paths) => paths,
        Err(error) => return error.report(),
    };
    let comparing = compare_all(&config, &*loaded.agents, paths);
    let report =
        CompareReport::new(progress::with_spinner("replaying the recordings", comparing).await);
    let text = match serde_json::to_string_pretty(&report) {
        Ok(text) if args.json => text + "\n",
        _ => report.page(OutputStyle::for_stdout()),
    };
    // Write errors are ignored: stdout may be closed. The exit code reports the result.
    let _ = io::stdout().write_all(redactor.redact(text).as_bytes());
    if report.fit { exit::OK } else { exit::FAILED }
}

async fn find(config: &Config, args: &CompareArgs) -> Result<Vec<PathBuf>, KitError> {
    let (folder, named, most) = (config.recordings_dir.clone(), args.recordings.clone(), args.most);
    let listed = tokio::task::spawn_blocking(move || match named.is_empty() {
        true => newest(&folder, most).map_err(|error| {
            KitError::failed(format!("RECORDINGS_DIR: cannot list {}: {error}", folder.display()))
        }),
        false => aetheel_recording::case::find(&named)
            .map_err(|error| KitError::usage(with_causes(&error))),
    });
    listed.await.unwrap_or_else(|error| Err(KitError::failed(error.to_string())))
}

async fn compare_all(
    config: &Config,
    backends: &dyn Backends,
    paths: Vec<PathBuf>,
) -> Vec<ComparedRecording> {
    let last = match gateway_of(config) {
        Some(_) => Components::new(&config.config_dir).last(),
        None => Vec::new(),
    };
    let serving: BTreeSet<String> = last.into_iter().map(|last| last.digest).collect();
    let end = Instant::now() + ALL_TIMEOUT;
    let mut rows = Vec::new();
    for path in paths {
        let shown = path.strip_prefix(&config.recordings_dir).unwrap_or(&path);
        let mut row = ComparedRecording {
            recording: shown.display().to_string(),
            backend: None,
            by_another_component: false,
            serves_now: false,
            goes_on: false,
            reading: RecordingOutcome::AsBefore,
        };
        let compared = timeout_at(end, row.compare(&path, backends, &serving)).await;
        if let Err(skip) = compared.unwrap_or(Err(SkipReason::Late)) {
            row.reading = RecordingOutcome::Skipped { why: skip.to_string() };
        }
        rows.push(row);
    }
    rows
}

impl ComparedRecording {
    async fn compare(
        &mut self,
        path: &Path,
        backends: &dyn Backends,
        serving: &BTreeSet<String>,
    ) -> Result<(), SkipReason> {
        let path = path.to_owned();
        let read = move || -> Result<ParsedRecording, CompareError> {
            Ok(ParsedRecording::read_unfinished(&read_ordinary(&path, MAX_READ_BYTES)?)?)
        };
        let tape = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
        self.backend = Some(tape.header.backend.clone());
        self.goes_on = open_turns(&tape.entries).next().is_some();
        let name = &tape.header.backend;
        let backend = backends.get(name).ok_or_else(|| SkipReason::NoBackend(name.clone()))?;
        let digest = &backend.generation().digest;
        self.by_another_component = *digest != tape.header.digest;
        self.serves_now = serving.contains(digest);
        let mut compared = compare_recorded(&*backend, tape).await?;
        compared.differences.retain(|difference| difference.harmful);
        let differences = compared.differences;
        self.reading = match (compared.is_unreadable, differences.is_empty()) {
            (true, _) => RecordingOutcome::Unreadable { differences },
            (false, true) => RecordingOutcome::AsBefore,
            (false, false) => RecordingOutcome::Otherwise { differences },
        };
        Ok(())
    }

    /// Returns whether the outcome is a reason against an upgrade. Differences are accepted if
    /// another version made the recording, because it was replaced on purpose. An unreadable
    /// recording is accepted only if, in addition, the running gateway uses the same version
    /// already.
    fn fails(&self) -> bool {
        match self.reading {
            RecordingOutcome::AsBefore | RecordingOutcome::Skipped { .. } => false,
            RecordingOutcome::Otherwise { .. } => !self.by_another_component,
            RecordingOutcome::Unreadable { .. } => !(self.by_another_component && self.serves_now),
        }
    }

    /// Describes the recording, unless it was read without differences.
    fn lines(&self, style: OutputStyle) -> Vec<String> {
        let mut name = self.recording.clone();
        if let Some(backend) = &self.backend {
            name.push_str(&format!(" of {backend}"));
        }
        if self.by_another_component {
            name.push_str(", by another version of the backend");
        }
        if self.serves_now {
            name.push_str(", as in the running gateway");
        }
        if self.goes_on {
            name.push_str(", its turn has not ended");
        }
        let (outcome, differences): (String, &[TurnDifference]) = match &self.reading {
            RecordingOutcome::AsBefore => return Vec::new(),
            RecordingOutcome::Otherwise { differences } => {
                ("reads differently".to_owned(), differences)
            }
            RecordingOutcome::Unreadable { differences } => {
                ("could not be read".to_owned(), differences)
            }
            RecordingOutcome::Skipped { why } => (format!("not compared: {why}"), &[]),
        };
        let head = format!("{name}: {outcome}");
        let mut lines = vec![if self.fails() { style.bad(&head) } else { head }];
        for TurnDifference { line, what, before, now, .. } in differences {
            lines.push(format!("  line {line}: {what}"));
            let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "(none)".to_owned());
            lines.push(style.bad(&format!("    - {}", side(before))));
            lines.push(style.good(&format!("    + {}", side(now))));
        }
        lines
    }
}

impl CompareReport {
    fn new(recordings: Vec<ComparedRecording>) -> Self {
        let mut counts = RecordingCounts::default();
        for row in &recordings {
            *match row.reading {
                RecordingOutcome::AsBefore => &mut counts.as_before,
                RecordingOutcome::Otherwise { .. } => &mut counts.otherwise,
                RecordingOutcome::Unreadable { .. } => &mut counts.unreadable,
                RecordingOutcome::Skipped { .. } => &mut counts.skipped,
            } += 1;
        }
        counts.read = recordings.len() - counts.skipped;
        Self { fit: !recordings.iter().any(ComparedRecording::fails), recordings, counts }
    }

    fn page(&self, style: OutputStyle) -> String {
        let mut lines: Vec<String> =
            self.recordings.iter().flat_map(|row| row.lines(style)).collect();
        let RecordingCounts { read, as_before, otherwise, unreadable, skipped } = self.counts;
        if skipped > 0 {
            lines.push(format!("{} not compared", counted(skipped, "recording")));
        }
        let summary = format!(
            "{} read: {as_before} as before, {otherwise} read differently, {unreadable} could not be read",
            counted(read, "recording")
        );
        lines.push(if self.fit { style.good(&summary) } else { style.bad(&summary) });
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(reading: RecordingOutcome, by_another_component: bool, serves_now: bool) -> bool {
        CompareReport::new(vec![ComparedRecording {
            recording: "2026-01-02/a.jsonl".to_owned(),
            backend: Some("demo".to_owned()),
            by_another_component,
            serves_now,
            goes_on: false,
            reading,
        }])
        .fit
    }

    #[test]
    fn another_version_may_read_differently_but_must_be_able_to_read() {
        let otherwise = || RecordingOutcome::Otherwise { differences: Vec::new() };
        let unreadable = || RecordingOutcome::Unreadable { differences: Vec::new() };
        assert!(fit(RecordingOutcome::AsBefore, false, false));
        assert!(fit(RecordingOutcome::Skipped { why: "damaged".to_owned() }, false, false));
        assert!(fit(otherwise(), true, false) && !fit(otherwise(), false, false));
        assert!(!fit(unreadable(), true, false));
        assert!(fit(unreadable(), true, true), "the running gateway cannot read it either");
        assert!(!fit(unreadable(), false, true), "the current version made it");
    }
}
