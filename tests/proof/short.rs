//! Tests the host's detector with answers that do not look like prose, and with answers of which
//! people read only a part. It finds them with the positions of answers that it learned from
//! readable turns: here from the recordings themselves.

use std::collections::BTreeSet;

use aetheel_model::agent::{TurnKey, TurnOutcome};
use aetheel_model::baseline::{Baseline, Baselines, Success};
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, ReplayResult, endings, examine, replay};
use aetheel_recording::{Backend, Ending, RecordingEntry};
use jiff::Timestamp;
use serde_json::Value;

use super::backends::{Mute, shipped};
use super::mutants;
use super::mutation::{Change, Position, Recording, output};
use crate::support::recordings::cases;

/// Answers that do not look like prose.
const ANSWERS: [&str; 7] =
    ["Yes", "No.", "👍", "src/main.rs:42", "https://a.example/b?c=1", "`ls -l`", "1,024"];
const VERSION: Option<&str> = Some("1");

/// The figures of one backend.
#[derive(Debug, Default)]
struct Tally {
    turns: usize,
    positions: Vec<String>,
    lost: usize,
    found: usize,
    found_without: usize,
}

/// Learns the positions of answers from all recordings, and checks that none of them is reported.
async fn learned(backend: &dyn Backend, cases: &[Case], tally: &mut Tally) -> Baseline {
    let all = Baselines::default();
    let current = || all.get("b", VERSION).unwrap();
    // The second round uses everything that was learned.
    for round in 0..2 {
        for case in cases {
            let entries = &case.tape.entries;
            let replayed = replay(backend, entries, Batches::Single).await.unwrap();
            for (turn, ending) in endings(entries, &replayed) {
                let Some(read) = replayed.turns.get(&turn) else { continue };
                let done = read.done.as_ref();
                let before = examine(entries, &replayed.steps, turn, done, None);
                let found = examine(entries, &replayed.steps, turn, done, Some(&current()));
                tally.turns += 1;
                if ending == Ending::Completed {
                    assert_eq!(
                        (&found.lost, &found.lost_part),
                        (&before.lost, &None),
                        "{:?} turn {turn}",
                        case.path
                    );
                    let answered = !read.text().trim().is_empty();
                    let positions = found.positions.as_ref().filter(|_| round == 0);
                    let success =
                        Success { component: "c", answered, positions, at: Timestamp::UNIX_EPOCH };
                    all.add("b", VERSION, success);
                }
            }
        }
    }
    tally.positions = current().answers().map(str::to_owned).collect();
    current()
}

/// Replaces the answers of all turns by a short one. Returns `None` if the backend does not show
/// exactly this answer then.
async fn shortened(
    backend: &dyn Backend,
    case: &Case,
    answer: &str,
) -> Option<Vec<RecordingEntry>> {
    let replayed = replay(backend, &case.tape.entries, Batches::Single).await.unwrap();
    let texts: Vec<String> =
        replayed.turns.values().map(|turn| turn.text().trim().to_owned()).collect();
    if texts.iter().any(String::is_empty) {
        return None;
    }
    let mut is_begun = false;
    let mut entries: Vec<Value> = Vec::new();
    for entry in &case.tape.entries {
        let mut entry = serde_json::to_value(entry).unwrap();
        is_begun &= !entry.to_string().contains("start-turn");
        let text = output(&entry).map(str::to_owned);
        if let Some(mut document) =
            text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok())
        {
            replace(&mut document, &texts, answer, &mut is_begun);
            let input = entry.get_mut("in").unwrap();
            let place = ["/line/text", "/stream-event/data", "/http-response/body"]
                .into_iter()
                .find(|place| input.pointer(place).is_some())
                .unwrap();
            *input.pointer_mut(place).unwrap() = document.to_string().into();
        }
        entries.push(entry);
    }
    let entries: Vec<RecordingEntry> =
        entries.into_iter().map(|entry| serde_json::from_value(entry).unwrap()).collect();
    let short = replay(backend, &entries, Batches::Single).await.unwrap();
    let is_short =
        !short.turns.is_empty() && short.turns.values().all(|turn| turn.text().trim() == answer);
    is_short.then_some(entries)
}

/// Replaces each text that is an answer, and the pieces of a streamed one: the first by the whole
/// short answer, the others by nothing.
fn replace(value: &mut Value, texts: &[String], answer: &str, is_begun: &mut bool) {
    match value {
        Value::String(text) => {
            if texts.iter().any(|whole| whole == text.trim()) {
                *text = answer.to_owned();
            } else if text.len() >= 3
                && (text.contains(' ') || text.len() >= 8)
                && texts.iter().any(|whole| whole.contains(text.trim()))
            {
                *text = if std::mem::replace(is_begun, true) {
                    String::new()
                } else {
                    answer.to_owned()
                };
            }
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|item| replace(item, texts, answer, is_begun))
        }
        Value::Object(map) => {
            map.values_mut().for_each(|item| replace(item, texts, answer, is_begun))
        }
        _ => {}
    }
}

fn is_lost(
    entries: &[RecordingEntry],
    replayed: &ReplayResult,
    turn: TurnKey,
    baseline: Option<&Baseline>,
) -> bool {
    let done = replayed.turns[&turn].done.as_ref();
    let found = examine(entries, &replayed.steps, turn, done, baseline);
    found.lost.is_some() || found.lost_part.is_some()
}

/// Returns the text of a turn that ended well with less text than before.
fn lost_text(before: &ReplayResult, after: &ReplayResult, turn: TurnKey) -> Option<String> {
    let (before, after) = (before.turns.get(&turn)?, after.turns.get(&turn)?);
    let is_completed =
        after.done.as_ref().is_some_and(|done| matches!(done.outcome, TurnOutcome::Completed));
    let (before, after) = (before.text(), after.text());
    (is_completed && after.len() < before.len()).then_some(after)
}

/// Counts the short answers that changed recordings lose. Each field is changed in one recording.
async fn lose_short_answers(
    backend: &dyn Backend,
    (originals, baseline): (&[Case], &Baseline),
    tally: &mut Tally,
) {
    let mut tried = BTreeSet::new();
    for (case, answer) in originals.iter().zip(ANSWERS.iter().cycle()) {
        let Some(short) = shortened(backend, case, answer).await else { continue };
        let before = replay(backend, &short, Batches::Single).await.unwrap();
        let recording = Recording::new(short.iter().map(to_value).collect());
        for (position, change) in changes(&recording) {
            if !tried.insert((position.clone(), change)) {
                continue;
            }
            let Some(mutant) = recording.mutant(&position, change) else { continue };
            let after = mutants::entries(&mutant);
            tally.compare((backend, baseline), &before, &after, true).await;
        }
    }
}

/// Counts the parts of answers that are lost because the last line of a kind has changed.
async fn lose_later_parts(
    backend: &dyn Backend,
    (originals, baseline): (&[Case], &Baseline),
    tally: &mut Tally,
) {
    let mut tried = BTreeSet::new();
    for case in originals {
        let before = replay(backend, &case.tape.entries, Batches::Single).await.unwrap();
        let values: Vec<Value> = case.tape.entries.iter().map(to_value).collect();
        let recording = Recording::new(values.clone());
        for (position, change) in changes(&recording) {
            if change == Change::Split || tried.contains(&(position.clone(), change)) {
                continue;
            }
            let Some(mutant) = recording.mutant(&position, change) else { continue };
            let changed = |at: &usize| values[*at] != mutant.entries[*at];
            let Some(last) = (0..values.len()).rev().find(changed) else { continue };
            if (0..last).any(|at| changed(&at)) {
                tried.insert((position, change));
                let mut after = values.clone();
                after[last] = mutant.entries[last].clone();
                let after: Vec<RecordingEntry> =
                    after.into_iter().map(|entry| serde_json::from_value(entry).unwrap()).collect();
                tally.compare((backend, baseline), &before, &after, false).await;
            }
        }
    }
}

fn to_value(entry: &RecordingEntry) -> Value {
    serde_json::to_value(entry).unwrap()
}

fn changes(recording: &Recording) -> Vec<(Position, Change)> {
    let all = recording.changes().map(|(position, _, change)| (position.clone(), change));
    all.filter(|(_, change)| !matches!(change, Change::Added | Change::RenamedEverywhere)).collect()
}

impl Tally {
    /// Counts the turns that lose text: all of it, or a part.
    async fn compare(
        &mut self,
        (backend, baseline): (&dyn Backend, &Baseline),
        before: &ReplayResult,
        entries: &[RecordingEntry],
        whole: bool,
    ) {
        let after = replay(backend, entries, Batches::Single).await.unwrap();
        for turn in before.turns.keys() {
            if lost_text(before, &after, *turn).is_none_or(|rest| rest.trim().is_empty() != whole) {
                continue;
            }
            self.lost += 1;
            let is_found = |baseline| usize::from(is_lost(entries, &after, *turn, baseline));
            self.found_without += is_found(None);
            self.found += is_found(Some(baseline));
        }
    }
}

/// Checks that unchanged recordings are not reported, and that the learned positions find at least
/// `more` short answers and `parts` parts of answers that are not found without them.
async fn positions_find_losses(name: &str, more: usize, parts: usize) {
    let (backend, originals) = (Mute(shipped(name).await), cases(name));
    let (mut short, mut later) = (Tally::default(), Tally::default());
    let baseline = learned(&backend, &originals, &mut short).await;
    let known = (&originals[..], &baseline);
    lose_short_answers(&backend, known, &mut short).await;
    lose_later_parts(&backend, known, &mut later).await;
    println!("{name}: short answers: {short:?}, later parts: {later:?}");
    assert!(!short.positions.is_empty());
    assert!(short.found >= short.found_without + more, "{short:?}");
    assert!(later.found >= later.found_without + parts, "{later:?}");
}

macro_rules! short {
    ($($name:ident: $more:literal, $parts:literal;)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            positions_find_losses(stringify!($name), $more, $parts).await;
        }
    )* };
}
// How many losses each backend's recordings must have. Claude and Droid repeat the whole answer in
// other lines, which are not shortened here.
short! {
    acp: 3, 1;
    claude: 0, 0;
    codex: 3, 0;
    droid: 0, 0;
    gemini: 3, 1;
    opencode: 3, 0;
}
