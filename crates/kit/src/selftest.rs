//! The self-test of a component: the recordings in `X.cases/*.jsonl` beside `X.wasm` are replayed
//! at every load. A component that fails is not used. Time and size are limited, because loading
//! waits for the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::case::{Case, find};
use super::golden::difference;
use aetheel_model::agent::{Action, HostCommand, Input};
use aetheel_turn::Backend;
use aetheel_turn::recording::EntryKind;
use aetheel_turn::replay::{Batches, ReplayResult, replay};

/// Maximum number of recordings.
const MAX_RECORDINGS: usize = 64;
/// Maximum total size of the recordings, in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// Time limit for all recordings together.
const SELFTEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the folder with a component's recordings.
#[must_use]
pub fn folder_of(component: &Path) -> PathBuf {
    component.with_extension("cases")
}

/// Reads the recordings of a folder; returns none if the folder is missing. Blocks.
///
/// # Errors
/// Returns an error if there are too many recordings, or if one is invalid; it names the file and
/// the line.
pub fn read(folder: &Path) -> Result<Vec<Case>, String> {
    if !folder.is_dir() || fs::read_dir(folder).is_ok_and(|mut files| files.next().is_none()) {
        return Ok(Vec::new());
    }
    let paths = find(&[folder.to_owned()])?;
    let bytes: u64 =
        paths.iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum();
    if paths.len() > MAX_RECORDINGS || bytes > MAX_BYTES {
        let (many, most) = (paths.len(), MAX_BYTES >> 20);
        return Err(format!(
            "{}: {many} recordings with {bytes} bytes; at most {MAX_RECORDINGS} with {most} MiB in total are allowed",
            folder.display()
        ));
    }
    paths.iter().map(|path| Case::read(path)).collect()
}

/// Runs the self-test of a component.
///
/// # Errors
/// Returns the first failure, with file, line and reason.
pub async fn run(backend: &dyn Backend, cases: &[Case]) -> Result<(), String> {
    let all = async {
        for case in cases {
            one(backend, case).await?;
        }
        Ok(())
    };
    let late = || Err(format!("the self-test took longer than {} s", SELFTEST_TIMEOUT.as_secs()));
    tokio::time::timeout(SELFTEST_TIMEOUT, all).await.unwrap_or_else(|_| late())
}

async fn one(backend: &dyn Backend, case: &Case) -> Result<(), String> {
    let replayed = replay(backend, &case.tape.entries, Batches::Single)
        .await
        .map_err(|failure| format!("{}: {failure}", case.path.display()))?;
    if let Some((at, failure)) = &replayed.failure {
        return Err(format!("{}: {failure}", case.position(*at)));
    }
    if let Some(found) =
        case.actions.as_deref().and_then(|expected| difference(case, &replayed, expected))
    {
        let place = found.line.map_or_else(
            || case.path.display().to_string(),
            |line| format!("{}:{line}", case.path.display()),
        );
        let field = found.field.map(|field| format!(" (field `{field}`)")).unwrap_or_default();
        let what = found.path.map(|path| format!(" in `{path}`")).unwrap_or_default();
        let nothing = || "nothing".to_owned();
        return Err(format!(
            "{place}{field}: action {}{what}: expected {}, got {}",
            found.action,
            found.expected.unwrap_or_else(nothing),
            found.got.unwrap_or_else(nothing),
        ));
    }
    match unended(case, &replayed) {
        Some(turn) => Err(format!(
            "{}: turn {turn} does not end",
            case.position(case.tape.entries.len().saturating_sub(1))
        )),
        None => Ok(()),
    }
}

/// Returns a turn that the guest does not end although it ended in the recording or its agent
/// exited.
fn unended(case: &Case, replayed: &ReplayResult) -> Option<u32> {
    let entries = &case.tape.entries;
    let ended = |turn: u32| {
        entries.iter().any(
            |entry| matches!(&entry.kind, EntryKind::Out(Action::TurnDone(done)) if done.turn == turn),
        )
    };
    let exited_after = |at: usize| {
        entries[at..].iter().any(|entry| matches!(entry.kind, EntryKind::In(Input::Exited(_))))
    };
    let starts = entries.iter().enumerate().filter_map(|(at, entry)| match &entry.kind {
        EntryKind::In(Input::Command(HostCommand::StartTurn(start))) => Some((at, start.turn)),
        _ => None,
    });
    let mut due =
        starts.filter(|(at, turn)| ended(*turn) || exited_after(*at)).map(|(_, turn)| turn);
    due.find(|turn| replayed.turns.get(turn).is_none_or(|turn| turn.done.is_none()))
}
