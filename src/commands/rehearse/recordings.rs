//! Replays recordings with the components that now serve their backends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, timeout, timeout_at};

use super::facts::{FactDifference, Gaps, LinkFacts};
use crate::disk::read_ordinary;
use crate::turn::recording::{
    self, EntryKind, MAX_READ_BYTES, ParsedRecording, ReadError, RecordingEntry, newest, open_turns,
};
use crate::turn::replay::{Batches, ReplayResult, replay};
use crate::turn::{Backend, Backends, GuestFailure};

const ONE_TIMEOUT: Duration = Duration::from_secs(20);
const ALL_TIMEOUT: Duration = Duration::from_secs(80);
/// Inputs per call of the guest.
const BATCH: usize = 256;
/// A backend that fails this often is not tried again.
const FAILURES: u32 = 3;

/// A recording, and the outcome of its replay.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RehearsedRecording {
    /// Its path below the folder of recordings.
    pub(super) recording: String,
    /// Its backend, if known.
    pub(super) backend: Option<String>,
    /// Whether another component than the current one made the recording.
    pub(super) by_another_component: bool,
    /// Whether the current component also serves in the running gateway, so that an upgrade does
    /// not change the outcome.
    pub(super) serves_now: bool,
    /// Whether one of its turns has not ended.
    pub(super) goes_on: bool,
    #[serde(flatten)]
    pub(super) reading: RehearsalOutcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reading")]
pub(super) enum RehearsalOutcome {
    /// There are no observable differences.
    AsBefore,
    /// There are observable differences.
    Otherwise {
        differences: Vec<FactDifference>,
    },
    /// The guest fails, or a recorded answer is missing.
    Unreadable {
        why: String,
        differences: Vec<FactDifference>,
    },
    Skipped {
        why: String,
    },
}

impl RehearsedRecording {
    /// Returns whether the outcome is a reason against an upgrade. Differences are accepted if
    /// another component made the recording, because it was replaced on purpose. An unreadable
    /// recording is accepted only if, in addition, the running gateway uses the same component
    /// already.
    pub(super) fn fails(&self) -> bool {
        match self.reading {
            RehearsalOutcome::AsBefore | RehearsalOutcome::Skipped { .. } => false,
            RehearsalOutcome::Otherwise { .. } => !self.by_another_component,
            RehearsalOutcome::Unreadable { .. } => !(self.by_another_component && self.serves_now),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum SkipReason {
    #[error("it cannot be opened: {0}")]
    Open(#[from] io::Error),
    #[error("it is damaged: {0}")]
    Damaged(ReadError),
    #[error("it has gaps, because the disk was too slow")]
    Gaps,
    #[error("its backend `{0}` is not there")]
    NoBackend(String),
    #[error("a secret was removed from it, so differences are expected")]
    Masked,
    #[error("reading it takes longer than {} s", ONE_TIMEOUT.as_secs())]
    Slow,
    #[error("there was no time left for it; use `--recordings N` to read fewer")]
    Late,
    #[error("its backend already failed {FAILURES} times")]
    GivenUp,
    #[error("reading it was interrupted")]
    BrokeOff,
}

/// Replays the newest recordings, one after the other. `serving` has the digests of the components
/// that serve in the running gateway.
///
/// # Errors
/// The folder cannot be listed.
pub(super) async fn rehearse(
    backends: &dyn Backends,
    folder: &Path,
    most: usize,
    serving: &BTreeSet<String>,
) -> io::Result<Vec<RehearsedRecording>> {
    let below = folder.to_owned();
    let listed = tokio::task::spawn_blocking(move || newest(&below, most));
    let paths = listed.await.map_err(io::Error::other)??;
    let end = Instant::now() + ALL_TIMEOUT;
    let (mut rows, mut failures) = (Vec::new(), BTreeMap::new());
    for path in paths {
        let mut row = RehearsedRecording {
            recording: path.strip_prefix(folder).unwrap_or(&path).display().to_string(),
            backend: None,
            by_another_component: false,
            serves_now: false,
            goes_on: false,
            reading: RehearsalOutcome::AsBefore,
        };
        let read = read(backends, path, serving, &mut row, &mut failures);
        let read = timeout_at(end, read).await.unwrap_or(Err(SkipReason::Late));
        row.reading =
            read.unwrap_or_else(|skip| RehearsalOutcome::Skipped { why: skip.to_string() });
        rows.push(row);
    }
    Ok(rows)
}

async fn read(
    backends: &dyn Backends,
    path: PathBuf,
    serving: &BTreeSet<String>,
    row: &mut RehearsedRecording,
    failures: &mut BTreeMap<String, u32>,
) -> Result<RehearsalOutcome, SkipReason> {
    let opened = tokio::task::spawn_blocking(move || open(&path)).await;
    let tape = opened.map_err(|_| SkipReason::BrokeOff)??;
    row.backend = Some(tape.header.backend.clone());
    row.goes_on = open_turns(&tape.entries).next().is_some();
    let name = &tape.header.backend;
    let backend = backends.get(name).ok_or_else(|| SkipReason::NoBackend(name.clone()))?;
    row.by_another_component = backend.generation().digest != tape.header.digest;
    row.serves_now = serving.contains(&backend.generation().digest);
    let failed = failures.entry(name.clone()).or_default();
    if *failed >= FAILURES {
        return Err(SkipReason::GivenUp);
    }
    let compared = compare(&*backend, tape.entries, row.by_another_component);
    let (reading, has_failed) =
        timeout(ONE_TIMEOUT, compared).await.map_err(|_| SkipReason::Slow)??;
    *failed += u32::from(has_failed);
    Ok(reading)
}

fn open(path: &Path) -> Result<ParsedRecording, SkipReason> {
    let bytes = read_ordinary(path, MAX_READ_BYTES)?;
    let tape = ParsedRecording::read_unfinished(&bytes).map_err(SkipReason::Damaged)?;
    if tape.entries.iter().any(|entry| matches!(entry.kind, EntryKind::Lost(_))) {
        return Err(SkipReason::Gaps);
    }
    Ok(tape)
}

/// Replays a recording and compares the facts. Also returns whether the guest failed.
async fn compare(
    backend: &dyn Backend,
    mut entries: Vec<RecordingEntry>,
    by_another: bool,
) -> Result<(RehearsalOutcome, bool), SkipReason> {
    // The guest did not receive the following inputs.
    if let Some(end) = entries.iter().position(|entry| is_host_note(entry, recording::UNSEEN)) {
        entries.truncate(end + 1);
    }
    let replayed = match replay(backend, &entries, Batches::Of(BATCH)).await {
        Ok(replayed) => replayed,
        Err(failure) => return Ok((unreadable(&failure, Vec::new()), true)),
    };
    let failure = failure(&mut entries, &replayed);
    let recorded = LinkFacts::of(entries.iter().filter_map(RecordingEntry::action));
    let now = LinkFacts::of(replayed.actions());
    let differences = recorded.differences(&now, gaps(&entries));
    let reading = match failure {
        Some(failure) => unreadable(&failure, differences),
        None if differences.is_empty() => RehearsalOutcome::AsBefore,
        None if entries.iter().any(|entry| is_host_note(entry, recording::MASKED)) => {
            return Err(SkipReason::Masked);
        }
        None if by_another && recorded.is_lost_in(&now) => {
            let why = "a recorded answer is missing".to_owned();
            RehearsalOutcome::Unreadable { why, differences }
        }
        None => RehearsalOutcome::Otherwise { differences },
    };
    Ok((reading, replayed.failure.is_some()))
}

/// Returns the guest's failure, unless the recorded guest failed alike. If the guest refuses the
/// state that another component saved, the gateway would start a new link, so the recording is
/// compared only up to there.
fn failure(entries: &mut Vec<RecordingEntry>, replayed: &ReplayResult) -> Option<GuestFailure> {
    let (at, failure) = replayed.failure.as_ref()?;
    let text = failure.to_string();
    if entries
        .iter()
        .any(|entry| is_host_note(entry, recording::UNSEEN) || is_host_note(entry, &text))
    {
        return None;
    }
    let refused = matches!(failure, GuestFailure::Refused(_));
    if refused
        && entries.get(*at).is_some_and(|entry| matches!(entry.kind, EntryKind::Moved { .. }))
    {
        entries.truncate(*at);
        return None;
    }
    Some(failure.clone())
}

fn unreadable(failure: &GuestFailure, differences: Vec<FactDifference>) -> RehearsalOutcome {
    RehearsalOutcome::Unreadable { why: failure.to_string(), differences }
}

fn is_host_note(entry: &RecordingEntry, text: &str) -> bool {
    matches!(&entry.kind, EntryKind::Host(what) if what == text)
}

fn gaps(entries: &[RecordingEntry]) -> Gaps {
    let cut = entries.iter().any(|entry| matches!(entry.kind, EntryKind::Cut(_)));
    let sparse = entries.iter().any(|entry| is_host_note(entry, recording::SPARSE));
    Gaps { unfinished: cut || open_turns(entries).next().is_some(), sparse }
}
