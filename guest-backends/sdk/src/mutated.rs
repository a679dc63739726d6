//! Tests that a backend notices changes of its agent: plays every recording again with every key
//! renamed, moved or retyped ([`mutation`](crate::mutation)).
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "used in tests, where a panic reports the failure"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use serde_json::Value;

use crate::fixture::{beside, cases_in};
use crate::mutation::{Change, Position, Recording, silent_loss};
use crate::wit::TimedInput;
use crate::{Backend, actions_json, inputs_json};

/// Number of recordings in which one change of one position is tried.
const RECORDINGS_PER_CHANGE: usize = 2;

/// Plays changed copies of the recordings in the folders to a backend. Fails if a change loses text
/// of an answer without a report. A change at a position that many recordings have is tried in the
/// first two of them.
pub fn no_answer_is_lost<B: Backend>(folders: &[PathBuf]) {
    let cases: Vec<Case> =
        folders.iter().flat_map(|folder| cases_in(folder)).map(|case| Case::read(&case)).collect();
    let mut tried: BTreeMap<(&str, Change), usize> = BTreeMap::new();
    let mut work = Vec::new();
    for case in &cases {
        for (position, _, change) in case.recording.changes() {
            let times = tried.entry((position.name.as_str(), change)).or_default();
            *times += 1;
            if *times <= RECORDINGS_PER_CHANGE {
                work.push((case, position, change));
            }
        }
    }
    assert!(!work.is_empty(), "no recording has output in JSON");
    let unchanged: Vec<Vec<Value>> =
        cases.iter().map(|case| play::<B>(case.recording.entries())).collect();
    let (next, losses) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((case, position, change)) =
                    work.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let at = cases.iter().position(|other| other.path == case.path).unwrap();
                    if let Some(loss) = case.lost::<B>(position, *change, &unchanged[at]) {
                        losses.lock().unwrap().insert((&position.name, *change), loss);
                    }
                }
            });
        }
    });
    let losses: Vec<String> = losses
        .into_inner()
        .unwrap()
        .into_iter()
        .map(|((position, change), loss)| format!("{position} {change}: {loss}"))
        .collect();
    assert!(
        losses.is_empty(),
        "{} changes lose an answer silently:\n{}",
        losses.len(),
        losses.join("\n")
    );
}

struct Case {
    path: PathBuf,
    recording: Recording,
}

impl Case {
    fn read(case: &Path) -> Self {
        let path = beside(case, "jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let entries = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { path, recording: Recording::new(entries) }
    }

    /// Returns a description of the answer that a change loses silently, if any.
    fn lost<B: Backend>(
        &self,
        position: &Position,
        change: Change,
        unchanged: &[Value],
    ) -> Option<String> {
        let mutant = self.recording.mutant(position, change)?;
        let loss = silent_loss(unchanged, &play::<B>(&mutant.entries))?;
        loss.of_answer.then(|| format!("{loss} ({}:{})", self.path.display(), mutant.entry + 1))
    }
}

/// Plays the inputs among the entries of a recording to a new backend.
fn play<B: Backend>(entries: &[Value]) -> Vec<Value> {
    let (mut backend, mut out) = (B::default(), Vec::new());
    for entry in entries {
        let Some(input) = entry.get("in") else { continue };
        let input = inputs_json::read(input.clone()).unwrap();
        let at_ms = entry["t"].as_f64().unwrap();
        backend
            .handle(TimedInput { at_ms, input }, &mut out)
            .expect("a backend accepts any output of its agent");
    }
    out.iter().map(actions_json::json).collect()
}
