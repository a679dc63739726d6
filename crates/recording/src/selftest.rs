//! The self-test of a component: the recordings in `X.cases/*.jsonl` beside `X.wasm` are replayed
//! at every load. A component that fails is not used. Time and size are limited, because loading
//! waits for the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::case::{Case, CaseError, find};
use crate::comparison::{GoldenDifference, golden_difference};
use crate::replay::{Batches, ReplayResult, replay};
use crate::{Backend, GuestFailure, RecordingEntry};
use aetheel_model::agent::{Action, Input, TurnKey};

const MAX_RECORDINGS: usize = 64;
/// Maximum total size of the recordings, in bytes.
const MAX_BYTES: u64 = 8 << 20;
const SELFTEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why a component fails its self-test.
#[derive(Debug, thiserror::Error)]
pub enum SelftestError {
    /// A recording cannot be read.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The recordings are too many or too large.
    #[error(
        "{}: {count} recordings with {bytes} bytes; at most {MAX_RECORDINGS} with {} MiB in total are allowed",
        folder.display(),
        MAX_BYTES >> 20
    )]
    TooLarge {
        /// The folder with the recordings.
        folder: PathBuf,
        /// The number of recordings.
        count: usize,
        /// Their total size in bytes.
        bytes: u64,
    },
    /// The replays take longer than the time limit.
    #[error("the self-test took longer than {} s", SELFTEST_TIMEOUT.as_secs())]
    Timeout,
    /// No guest can be opened, or the guest fails during a replay.
    #[error("{position}: {failure}")]
    Guest {
        /// The recording, and the line if known.
        position: String,
        /// The guest's failure.
        #[source]
        failure: GuestFailure,
    },
    /// The actions are not the expected ones.
    #[error("{}", describe_difference(path, difference))]
    Difference {
        /// The path of the recording.
        path: PathBuf,
        /// The first different action.
        difference: Box<GoldenDifference>,
    },
    /// The guest does not end a turn that ended in the recording, or whose agent exited.
    #[error("{position}: turn {turn} does not end")]
    Unended {
        /// The last line of the recording.
        position: String,
        /// The key of the turn.
        turn: TurnKey,
    },
}

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
pub fn read(folder: &Path) -> Result<Vec<Case>, SelftestError> {
    if !folder.is_dir() || fs::read_dir(folder).is_ok_and(|mut files| files.next().is_none()) {
        return Ok(Vec::new());
    }
    let paths = find(&[folder.to_owned()])?;
    let bytes: u64 =
        paths.iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum();
    if paths.len() > MAX_RECORDINGS || bytes > MAX_BYTES {
        let folder = folder.to_owned();
        return Err(SelftestError::TooLarge { folder, count: paths.len(), bytes });
    }
    paths.iter().map(|path| Ok(Case::read(path)?)).collect()
}

/// Runs the self-test of a component.
///
/// # Errors
/// Returns the first failure, with file, line and reason.
pub async fn run(backend: &dyn Backend, cases: &[Case]) -> Result<(), SelftestError> {
    let all = async {
        for case in cases {
            one(backend, case).await?;
        }
        Ok(())
    };
    tokio::time::timeout(SELFTEST_TIMEOUT, all).await.unwrap_or(Err(SelftestError::Timeout))
}

async fn one(backend: &dyn Backend, case: &Case) -> Result<(), SelftestError> {
    let replayed =
        replay(backend, &case.tape.entries, Batches::Single).await.map_err(|failure| {
            SelftestError::Guest { position: case.path.display().to_string(), failure }
        })?;
    if let Some((at, failure)) = &replayed.failure {
        let (position, failure) = (case.position(*at), failure.clone());
        return Err(SelftestError::Guest { position, failure });
    }
    if let Some(found) =
        case.actions.as_deref().and_then(|expected| golden_difference(case, &replayed, expected))
    {
        let (path, difference) = (case.path.clone(), Box::new(found));
        return Err(SelftestError::Difference { path, difference });
    }
    match unended(case, &replayed) {
        Some(turn) => {
            let position = case.position(case.tape.entries.len().saturating_sub(1));
            Err(SelftestError::Unended { position, turn })
        }
        None => Ok(()),
    }
}

fn describe_difference(path: &Path, found: &GoldenDifference) -> String {
    let line = found.line.map(|line| format!(":{line}")).unwrap_or_default();
    let field = found.field.as_ref().map(|field| format!(" (field `{field}`)")).unwrap_or_default();
    let part = found.path.as_ref().map(|path| format!(" in `{path}`")).unwrap_or_default();
    format!(
        "{}{line}{field}: action {}{part}: expected {}, got {}",
        path.display(),
        found.action,
        found.expected.as_deref().unwrap_or("nothing"),
        found.got.as_deref().unwrap_or("nothing"),
    )
}

/// Returns a turn that the guest does not end although it ended in the recording or its agent
/// exited.
fn unended(case: &Case, replayed: &ReplayResult) -> Option<u32> {
    let entries = &case.tape.entries;
    let ends =
        |action: &Action, turn: u32| matches!(action, Action::TurnDone(done) if done.turn == turn);
    let ended = |turn: u32| {
        entries.iter().filter_map(RecordingEntry::action).any(|action| ends(action, turn))
    };
    let exited_after =
        |at: usize| entries[at..].iter().any(|it| matches!(it.input(), Some(Input::Exited(_))));
    let starts =
        entries.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.turn_start()?.turn)));
    let mut due =
        starts.filter(|(at, turn)| ended(*turn) || exited_after(*at)).map(|(_, turn)| turn);
    due.find(|turn| replayed.turns.get(turn).is_none_or(|turn| turn.done.is_none()))
}
