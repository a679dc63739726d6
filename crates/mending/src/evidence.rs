//! Collects the recordings that decide about a change: the operator's cases, turns that the serving
//! version reads, and the turns whose replies it lost.

use std::path::{Path, PathBuf};

use super::task;
use aetheel_kit::mend::{LostRecording, MendEvidence};
use aetheel_recording::case::{Case, CaseError};
use aetheel_recording::replay::{Batches, endings, replay};
use aetheel_recording::reread::reread_tape;
use aetheel_recording::{Backend, EntryKind, ParsedRecording};
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_store::workspace::LostTurn;

/// Number of the newest turns of the backend that count as cases.
const READ_TURNS: usize = 20;
/// Number of recordings that are looked through for them.
const LOOKED_THROUGH: usize = 2_000;
/// Maximum number of lost turns that a change must read.
const MAX_LOST: usize = 50;
/// Largest recording that is used, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// The places of recordings.
#[derive(Clone, Debug, Default)]
pub struct EvidencePlaces {
    /// The operator's cases: files and folders. Missing ones are ignored.
    pub cases: Vec<PathBuf>,
    /// The folder of the gateway's recordings.
    pub recordings: PathBuf,
    /// The lost turns in the gateway's list.
    pub lost: Vec<LostTurn>,
    /// Other recordings with turns that the serving version cannot read.
    pub named: Vec<PathBuf>,
}

/// Collects the recordings for a change of a backend.
///
/// # Errors
/// A case cannot be read.
pub async fn collect(
    serving: &dyn Backend,
    places: EvidencePlaces,
) -> Result<MendEvidence, CaseError> {
    let name = serving.descriptor().name.clone();
    let read = tokio::task::spawn_blocking(move || {
        let cases = task::cases(&places.cases)?;
        let recent = recent(&places.recordings, &name);
        let lost = places.lost.iter().filter(|turn| turn.state.is_open());
        let listed = lost.filter_map(|turn| {
            let case = read_case(&places.recordings.join(&turn.recording))?;
            Some(LostRecording { turn: turn.turn.clone(), case })
        });
        let named = places.named.iter().filter_map(|path| read_case(path)).flat_map(turns_of);
        let lost: Vec<LostRecording> = listed.chain(named).take(MAX_LOST).collect();
        Ok((cases, recent, lost))
    });
    let (mut cases, recent, candidates): (Vec<Case>, _, Vec<LostRecording>) = match read.await {
        Ok(read) => read?,
        Err(_) => return Ok(MendEvidence::default()),
    };
    for case in recent {
        if is_read(serving, &case).await {
            cases.push(case);
        }
    }
    let mut lost = Vec::new();
    for candidate in candidates {
        let tape = candidate.case.tape.clone();
        if reread_tape(serving, tape, &candidate.turn).await.is_err() {
            lost.push(candidate);
        }
    }
    Ok(MendEvidence { cases, lost })
}

/// Returns whether the backend reads all turns of a recording and knows its whole output.
async fn is_read(serving: &dyn Backend, case: &Case) -> bool {
    let Ok(replayed) = replay(serving, &case.tape.entries, Batches::Of(64)).await else {
        return false;
    };
    replayed.failure.is_none()
        && replayed.turns.values().all(|turn| turn.transcript.unrecognised().is_empty())
        && !endings(&case.tape.entries, &replayed).values().any(aetheel_recording::Ending::is_lost)
}

fn read_case(path: &Path) -> Option<Case> {
    let bytes = read_ordinary(path, MAX_BYTES).ok()?;
    let tape = ParsedRecording::read_unfinished(&bytes).ok()?;
    Some(Case { path: path.to_owned(), tape, actions: None })
}

fn turns_of(case: Case) -> Vec<LostRecording> {
    let turns = case.tape.entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Turn { turn, .. } => Some(turn.clone()),
        _ => None,
    });
    turns.map(|turn| LostRecording { turn, case: case.clone() }).collect()
}

/// Returns the newest recordings of a backend.
fn recent(folder: &Path, backend: &str) -> Vec<Case> {
    let paths = aetheel_recording::newest(folder, LOOKED_THROUGH).unwrap_or_default();
    let cases = paths.iter().filter_map(|path| read_case(path));
    cases.filter(|case| case.tape.header.backend == backend).take(READ_TURNS).collect()
}

/// Returns the folders in which the cases of a backend are looked for: `X.cases` beside its
/// component, `cases` beside its sources, and the recordings of a checkout of this project.
#[must_use]
pub fn usual_cases(component: &Path, source: &Path, backend: &str) -> Vec<PathBuf> {
    vec![
        aetheel_recording::selftest::folder_of(component),
        source.join("cases"),
        source.join(backend).join("cases"),
        source.join("../tests/fixtures").join(backend),
    ]
}
