//! Changed recordings that the shipped version of a backend cannot read, with the code that restores
//! their former format.

use std::collections::{BTreeMap, BTreeSet};

use aetheel_kit::mend::LostRecording;
use aetheel_kit::mutation::{Change, Holds, Position, Recording, output};
use aetheel_model::agent::TurnKey;
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, endings, replay};
use aetheel_recording::{Backend, Ending, EntryKind, ParsedRecording, RecordingEntry};
use serde_json::{Value, json};

use crate::support::recordings::{cases, name as case_name};

/// The id of the lost turn.
pub const TURN: &str = "0badcafe";

/// Number of recordings in which each change is tried until it loses a reply.
const MAX_TRIED: usize = 3;

/// A changed format of an agent's output.
pub struct Format {
    pub description: String,
    /// A turn that the shipped version cannot read.
    pub lost: LostRecording,
    /// Rust statements that restore the former format of `value`, a JSON document of the agent.
    /// They return whether they changed something.
    pub restore: String,
}

/// Returns changed formats with which a backend loses a reply, of all kinds in turn, at most `most`.
pub async fn lost_formats(name: &str, backend: &dyn Backend, most: usize) -> Vec<Format> {
    let mut found: [Vec<Format>; 6] = Default::default();
    let mut known: BTreeMap<(Position, Change), usize> = BTreeMap::new();
    for case in cases(name) {
        let entries: Vec<Value> =
            case.tape.entries.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
        let file = case_name(name, &case);
        // Gemini CLI's other protocol is read by a library that several backends share.
        if name == "gemini" && file.starts_with("live") {
            continue;
        }
        let recording = Recording::new(entries.clone());
        let mut candidates: Vec<(usize, String, Vec<Value>, String)> = Vec::new();
        for (position, holds, change) in recording.changes() {
            let kind = match change {
                Change::Renamed => 0,
                Change::Nested => 1,
                Change::Retyped => 2,
                Change::RenamedEverywhere => 0,
                Change::Split | Change::OtherKind | Change::Added => continue,
            };
            let is_plain = position.path.chars().all(|c| c.is_alphanumeric() || "._[]".contains(c));
            let tried = known.entry((position.clone(), change)).or_default();
            *tried += 1;
            if holds != Holds::Text || !is_plain || *tried > MAX_TRIED {
                continue;
            }
            let Some(mutant) = recording.mutant(position, change) else { continue };
            let restore = restore_key(&position.path, change);
            candidates.push((kind, format!("{} {change}", position.name), mutant.entries, restore));
        }
        for (kind, type_of) in
            types(&entries).into_iter().flat_map(|of| (3..6).map(move |kind| (kind, of.clone())))
        {
            let tried = known.entry((position_of(&type_of, kind), Change::Split)).or_default();
            *tried += 1;
            if *tried > MAX_TRIED {
                continue;
            }
            let (what, changed, restore) = change_documents(&entries, &type_of, kind);
            candidates.push((kind, what, changed, restore));
        }
        for (kind, what, entries, restore) in candidates {
            if found[kind].len() >= most.div_ceil(2) {
                continue;
            }
            if let Some(lost) = lost_turn(backend, &case, entries).await {
                found[kind].push(Format { description: format!("{file}: {what}"), lost, restore });
            }
        }
    }
    let mut formats = Vec::new();
    let mut kinds: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
    while formats.len() < most {
        let before = formats.len();
        formats.extend(kinds.iter_mut().filter_map(Iterator::next));
        if formats.len() == before {
            break;
        }
    }
    formats.truncate(most);
    formats
}

fn position_of(type_of: &str, kind: usize) -> Position {
    Position { name: type_of.to_owned(), path: kind.to_string() }
}

/// Returns a changed recording if the backend loses the reply of one of its turns.
async fn lost_turn(
    backend: &dyn Backend,
    case: &Case,
    entries: Vec<Value>,
) -> Option<LostRecording> {
    let entries: Vec<RecordingEntry> =
        entries.into_iter().map(|entry| serde_json::from_value(entry).unwrap()).collect();
    let before = replay(backend, &case.tape.entries, Batches::Of(64)).await.unwrap();
    let after = replay(backend, &entries, Batches::Of(64)).await.unwrap();
    let ends = endings(&entries, &after);
    let is_lost = |turn: &TurnKey| {
        ends.get(turn).is_some_and(Ending::is_lost)
            && before.turns.get(turn).is_some_and(|turn| !turn.text().trim().is_empty())
    };
    let turn = *endings(&case.tape.entries, &before)
        .iter()
        .find(|(turn, ending)| matches!(ending, Ending::Completed) && is_lost(turn))?
        .0;
    Some(LostRecording { turn: TURN.to_owned(), case: with_turn(case, entries, turn) })
}

/// Returns the case with other entries, in which a turn has the id [`TURN`].
pub fn with_turn(case: &Case, entries: Vec<RecordingEntry>, turn: TurnKey) -> Case {
    let mut all = Vec::new();
    for entry in entries {
        if entry.turn_start().is_some_and(|start| start.turn == turn) {
            let kind = EntryKind::Turn {
                turn: TURN.to_owned(),
                event: 1,
                lane: "channel:7".to_owned(),
                session: 1,
                key: turn,
            };
            all.push(RecordingEntry { t: entry.t, kind });
        }
        all.push(entry);
    }
    let lines = (2..all.len() + 2).collect();
    let tape = ParsedRecording { header: case.tape.header.clone(), entries: all, lines };
    Case { path: case.path.with_file_name("lost.jsonl"), tape, actions: None }
}

/// Returns the values of `type` in the agent's documents.
fn types(entries: &[Value]) -> BTreeSet<String> {
    let documents = entries.iter().filter_map(|entry| serde_json::from_str(output(entry)?).ok());
    documents.filter_map(|value: Value| Some(value.get("type")?.as_str()?.to_owned())).collect()
}

/// Changes all documents of a type: they get another type (3), are wrapped in an object (4), or
/// their fields move into one (5).
fn change_documents(entries: &[Value], type_of: &str, kind: usize) -> (String, Vec<Value>, String) {
    let changed = entries.iter().map(|entry| {
        let mut entry = entry.clone();
        let Some(place) = entry.pointer_mut("/in/line/text") else { return entry };
        let Ok(mut value) = serde_json::from_str::<Value>(place.as_str().unwrap_or_default())
        else {
            return entry;
        };
        if value.get("type").and_then(Value::as_str) != Some(type_of) {
            return entry;
        }
        match kind {
            3 => value["type"] = json!(format!("{type_of}.v2")),
            4 => value = json!({ "version": 2, "payload": value }),
            _ => {
                let mut fields = value.as_object().unwrap().clone();
                let named = fields.remove("type");
                value = json!({ "type": named, "data": fields });
            }
        }
        *place = json!(value.to_string());
        entry
    });
    let (what, restore) = match kind {
        3 => (
            "have a new type",
            r#"let named = value.get("type").and_then(Value::as_str).and_then(|of| of.strip_suffix(".v2")).map(str::to_owned);
    match named {
        Some(named) => {
            value["type"] = Value::String(named);
            true
        }
        None => false,
    }"#,
        ),
        4 => (
            "are wrapped",
            r#"let inner = value.as_object_mut().filter(|map| map.contains_key("version")).and_then(|map| map.remove("payload"));
    match inner {
        Some(inner) => {
            *value = inner;
            true
        }
        None => false,
    }"#,
        ),
        _ => (
            "have their fields in an object",
            r#"let inner = value.as_object_mut().filter(|map| map.len() == 2 && map.contains_key("type")).and_then(|map| map.remove("data"));
    match inner {
        Some(Value::Object(inner)) => {
            value.as_object_mut().into_iter().for_each(|map| map.extend(inner.clone()));
            true
        }
        _ => false,
    }"#,
        ),
    };
    (format!("documents {type_of} {what}"), changed.collect(), restore.to_owned())
}

/// Returns the code that restores a changed key.
fn restore_key(path: &str, change: Change) -> String {
    if change == Change::RenamedEverywhere {
        let key = path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]");
        return format!(
            r#"match value {{
        Value::Array(items) => items.iter_mut().fold(false, |found, item| change(item) | found),
        Value::Object(map) => {{
            let moved = match map.contains_key("{key}") {{
                true => None,
                false => map.remove("{key}_renamed"),
            }};
            let found = moved.is_some();
            map.extend(moved.map(|old| ("{key}".to_owned(), old)));
            map.values_mut().fold(found, |found, inner| change(inner) | found)
        }}
        _ => false,
    }}"#
        );
    }
    let steps: Vec<String> = path
        .split('.')
        .flat_map(|part| {
            let key = part.trim_end_matches("[]");
            let lists = (part.len() - key.len()) / 2;
            std::iter::once(key.to_owned()).chain(std::iter::repeat_n("[]".to_owned(), lists))
        })
        .filter(|step| !step.is_empty())
        .collect();
    let body = match change {
        Change::Renamed => {
            r#"if map.contains_key(*key) { return false; }
            match map.remove(&format!("{key}_renamed")) {
                Some(old) => { map.insert((*key).to_owned(), old); true }
                None => false,
            }"#
        }
        Change::Nested => {
            r#"let inner = match map.get_mut(*key) {
                Some(Value::Object(inner)) if inner.len() == 1 => inner.remove("nested"),
                _ => None,
            };
            match inner {
                Some(inner) => { map.insert((*key).to_owned(), inner); true }
                None => false,
            }"#
        }
        _ => {
            r#"let inner = match map.get_mut(*key) {
                Some(Value::Array(items)) if items.len() == 1 && items[0].is_string() => items.pop(),
                _ => None,
            };
            match inner {
                Some(inner) => { map.insert((*key).to_owned(), inner); true }
                None => false,
            }"#
        }
    };
    format!(
        r#"fn walk(value: &mut Value, path: &[&str]) -> bool {{
        match path {{
            ["[]", rest @ ..] => {{
                let items = value.as_array_mut().into_iter().flatten();
                items.fold(false, |found, item| walk(item, rest) | found)
            }}
            [key] => {{
                let Some(map) = value.as_object_mut() else {{ return false }};
                {body}
            }}
            [key, rest @ ..] => value.get_mut(*key).is_some_and(|inner| walk(inner, rest)),
            [] => false,
        }}
    }}
    walk(value, &{steps:?})"#
    )
}
