//! The recordings, and the changes that are tried with each.

use std::collections::BTreeMap;
use std::io::Write as _;

use aetheel_model::agent::{HostCommand, Input, TurnKey};
use aetheel_recording::case::Case;
use aetheel_recording::{EntryKind, RecordingEntry};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::mutation::{Change, Holds, Mutant, Position, Recording};
use crate::support::recordings::cases;

/// The id of the turn in a file made by [`recording_file`].
pub const TURN: &str = "0badcafe";
/// Number of letters and digits that the detector compares at a time. It takes an answer for shown
/// if at most as many are new.
pub const SEQUENCE: usize = 8;
/// Maximum number of changes of a backend's recordings in the sample.
const SAMPLE: usize = 800;

/// A recording and the changes to try.
pub struct Original {
    pub case: Case,
    pub recording: Recording,
    pub changes: Vec<(Position, Change)>,
}

/// Returns the recordings of a backend with the changes of its string-valued keys and lines. The
/// sample contains the changes of the first recording with each key, at most [`SAMPLE`] of them,
/// evenly chosen. With `MUTANTS=all`, returns every change of every recording, also of other keys.
pub fn recordings(name: &str) -> Vec<Original> {
    let all = std::env::var("MUTANTS").is_ok_and(|mutants| mutants == "all");
    let mut known: BTreeMap<(Position, Change), ()> = BTreeMap::new();
    let mut originals: Vec<Original> = cases(name)
        .into_iter()
        .map(|case| {
            let entries =
                case.tape.entries.iter().map(|entry| serde_json::to_value(entry).unwrap());
            let recording = Recording::new(entries.collect());
            let fits = |(position, holds, change): (&Position, Holds, Change)| {
                let of_text = holds == Holds::Text || change == Change::Split;
                let sampled = of_text && change != Change::RenamedEverywhere;
                let change = (position.clone(), change);
                (all || (sampled && known.insert(change.clone(), ()).is_none())).then_some(change)
            };
            let changes = recording.changes().filter_map(fits).collect();
            Original { case, recording, changes }
        })
        .collect();
    let count: usize = originals.iter().map(|original| original.changes.len()).sum();
    if !all && count > SAMPLE {
        let mut number = 0;
        for original in &mut originals {
            original.changes.retain(|_| {
                number += 1;
                number * SAMPLE / count != (number - 1) * SAMPLE / count
            });
        }
    }
    originals
}

/// Returns the entries of a changed recording.
pub fn entries(mutant: &Mutant) -> Vec<RecordingEntry> {
    let entries = mutant.entries.iter();
    entries.map(|entry| serde_json::from_value(entry.clone()).unwrap()).collect()
}

/// Writes a recording in which `turn` has the id [`TURN`].
pub fn recording_file(case: &Case, entries: &[RecordingEntry], turn: TurnKey) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    let begun = EntryKind::Turn {
        turn: TURN.to_owned(),
        event: 1,
        lane: "channel:7".to_owned(),
        session: 1,
        key: turn,
    };
    let mut lines = vec![serde_json::to_string(&case.tape.header).unwrap()];
    for entry in entries {
        let starts = matches!(
            &entry.kind,
            EntryKind::In(Input::Command(HostCommand::StartTurn(start))) if start.turn == turn
        );
        if starts {
            let entry = RecordingEntry { t: entry.t, kind: begun.clone() };
            lines.push(serde_json::to_string(&entry).unwrap());
        }
        lines.push(serde_json::to_string(entry).unwrap());
    }
    lines.push(String::new());
    file.write_all(lines.join("\n").as_bytes()).unwrap();
    file
}

/// Returns whether the detector promises to find a text: at least two words with six alphabetic
/// characters or more in total. It cannot find single words, see `docs/drift.md`.
pub fn is_prose(text: &str) -> bool {
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic));
    words.count() >= 2 && text.chars().filter(|c| c.is_alphabetic()).count() >= 6
}

/// Returns everything that the host sent to the agent, and everything that users saw, in lower case.
/// The detector ignores text from there, see `docs/drift.md`.
pub fn sent_and_shown(entries: &[RecordingEntry], actions: &[Value]) -> String {
    let sent = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::In(Input::Command(command)) => serde_json::to_string(command).ok(),
        _ => None,
    });
    let shown = actions.iter().map(Value::to_string);
    sent.chain(shown).collect::<Vec<_>>().join("\n").to_lowercase()
}

/// Returns how many letters and digits of a text are not in `seen`, compared in sequences of
/// [`SEQUENCE`] as in the detector.
pub fn unseen(text: &str, seen: &str) -> usize {
    let normal = |text: &str| -> Vec<char> {
        text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect()
    };
    let (letters, seen): (Vec<char>, String) = (normal(text), normal(seen).iter().collect());
    let mut is_seen = vec![false; letters.len()];
    for (at, sequence) in letters.windows(SEQUENCE).enumerate() {
        if seen.contains(&sequence.iter().collect::<String>()) {
            is_seen[at..at + SEQUENCE].fill(true);
        }
    }
    is_seen.iter().filter(|seen| !**seen).count()
}
