//! Changes the words of a recorded answer, so that a parser shows the changed words only if it
//! takes them from the agent's output.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::seeded_rng::SeededRng;
use aetheel_model::agent::{Input, Pipe};
use aetheel_recording::{EntryKind, RecordingEntry};

/// Keys whose values a parser may compare with known words.
const COMPARED: [&str; 12] = [
    "type",
    "subtype",
    "sessionUpdate",
    "kind",
    "method",
    "event",
    "op",
    "role",
    "status",
    "id",
    "jsonrpc",
    "stop_reason",
];
/// Endings of keys whose values are ids.
const ID_ENDINGS: [&str; 4] = ["Id", "ID", "_id", "_ids"];
/// Longest value of a key in [`COMPARED`] that names the kind of an object, in bytes.
const MAX_KIND: usize = 40;
/// Fewest letters and digits by which a piece of an answer is recognised.
const MIN_PIECE: usize = 4;
/// The position of a line that is not JSON.
const PLAIN: &str = "plain text";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryReading {
    /// No action that people see.
    Nothing,
    Text,
    /// Something else, such as a tool or a report of unknown output.
    Other,
}

/// A substitution of letters and digits, different for each seed. Everything else stays.
pub(super) struct Scramble {
    letters: [u8; 26],
    digits: [u8; 10],
}

impl Scramble {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let mut letters = std::array::from_fn(|at| b'a' + at as u8);
        let mut digits = std::array::from_fn(|at| b'0' + at as u8);
        shift(&mut rng, &mut letters);
        shift(&mut rng, &mut digits);
        Self { letters, digits }
    }

    /// Returns a text with other letters and digits, in the same cases and places.
    pub(super) fn apply(&self, text: &str) -> String {
        text.chars()
            .map(|letter| match letter {
                'a'..='z' => char::from(self.letters[letter as usize - 'a' as usize]),
                'A'..='Z' => {
                    let small = self.letters[letter as usize - 'A' as usize];
                    char::from(small.to_ascii_uppercase())
                }
                '0'..='9' => char::from(self.digits[letter as usize - '0' as usize]),
                other => other,
            })
            .collect()
    }

    /// Returns the entries with the texts at these positions changed.
    pub(super) fn change(
        &self,
        entries: &[RecordingEntry],
        positions: &BTreeSet<String>,
    ) -> Vec<RecordingEntry> {
        let mut changed = entries.to_vec();
        for text in changed.iter_mut().filter_map(output_mut) {
            let Some(mut document) = document(text) else {
                if positions.contains(PLAIN) {
                    *text = self.apply(text);
                }
                continue;
            };
            let mut found = false;
            visit(&mut document, "", &mut |position, text| {
                if positions.contains(position) {
                    *text = self.apply(text);
                    found = true;
                }
            });
            if found {
                *text = document.to_string();
            }
        }
        changed
    }
}

/// Brings the items into a random cyclic order, in which none keeps its place (Sattolo).
fn shift(rng: &mut SeededRng, items: &mut [u8]) {
    for at in (1..items.len()).rev() {
        items.swap(at, rng.below(at));
    }
}

/// Returns the positions in the agent's output that contain the reply or pieces of it.
pub(super) fn positions_of(entries: &[RecordingEntry], reply: &str) -> BTreeSet<String> {
    let found = texts(entries).into_iter().filter(|(_, texts)| has_pieces(texts, reply));
    found.map(|(at, _)| at).collect()
}

/// Returns a position from which a version takes text of its reply, and of which it shows nothing in
/// another entry. `reads` returns what the version makes of an entry.
pub(super) fn not_shown(
    entries: &[RecordingEntry],
    reply: &str,
    reads: impl Fn(usize) -> EntryReading,
) -> Option<String> {
    let of_reply = |(at, text): &(usize, String)| {
        reads(*at) == EntryReading::Text
            && letters(text) >= MIN_PIECE
            && reply.contains(text.trim())
    };
    let is_lacking = |(at, text): &(usize, String)| {
        reads(*at) == EntryReading::Nothing
            && letters(text) >= MIN_PIECE
            && !reply.contains(text.trim())
    };
    let found = placed_texts(entries).into_iter().find(|(_, texts)| {
        let pieces: Vec<String> = texts.iter().map(|(_, text)| text.clone()).collect();
        has_pieces(&pieces, reply) && texts.iter().any(of_reply) && texts.iter().any(is_lacking)
    });
    found.map(|(position, _)| position)
}

/// Returns whether the texts of a position are pieces of the reply: one of several words, or
/// together at least half of it. A single word may occur in a reply by chance.
fn has_pieces(texts: &[String], reply: &str) -> bool {
    let reply = reply.trim();
    if reply.is_empty() {
        return false;
    }
    let is_piece = |text: &&String| letters(text) >= MIN_PIECE && reply.contains(text.trim());
    let pieces: Vec<&String> = texts.iter().filter(is_piece).collect();
    let total: usize = pieces.iter().map(|text| letters(text)).sum();
    pieces.iter().any(|text| text.split_whitespace().nth(1).is_some())
        || total > 0 && total * 2 >= letters(reply)
        || texts.iter().any(|text| text.contains(reply))
        || texts.concat().contains(reply)
}

fn letters(text: &str) -> usize {
    text.chars().filter(|letter| letter.is_alphanumeric()).count()
}

/// Returns the positions at which the agent's output contains prose: a text of several words.
pub(super) fn positions_of_prose(entries: &[RecordingEntry]) -> BTreeSet<String> {
    let is_prose = |text: &String| text.split_whitespace().nth(1).is_some();
    let found = texts(entries).into_iter().filter(|(_, texts)| texts.iter().any(is_prose));
    found.map(|(at, _)| at).collect()
}

/// Returns all texts in the agent's output, by position.
fn texts(entries: &[RecordingEntry]) -> BTreeMap<String, Vec<String>> {
    let placed = placed_texts(entries).into_iter();
    let only = |texts: Vec<(usize, String)>| texts.into_iter().map(|(_, text)| text).collect();
    placed.map(|(position, texts)| (position, only(texts))).collect()
}

/// Returns all texts in the agent's output with the indexes of their entries, by position.
fn placed_texts(entries: &[RecordingEntry]) -> BTreeMap<String, Vec<(usize, String)>> {
    let mut found: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for (at, entry) in entries.to_vec().iter_mut().enumerate() {
        let Some(text) = output_mut(entry) else { continue };
        match document(text) {
            Some(mut document) => visit(&mut document, "", &mut |position, text| {
                found.entry(position.to_owned()).or_default().push((at, text.clone()));
            }),
            None => found.entry(PLAIN.to_owned()).or_default().push((at, text.clone())),
        }
    }
    found
}

fn output_mut(entry: &mut RecordingEntry) -> Option<&mut String> {
    match &mut entry.kind {
        EntryKind::In(Input::Line(line)) if line.pipe == Pipe::Stdout => Some(&mut line.text),
        EntryKind::In(Input::HttpResponse(response)) => Some(&mut response.body),
        EntryKind::In(Input::StreamEvent(event)) => Some(&mut event.data),
        _ => None,
    }
}

fn document(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

/// Calls `with` for each text in a document, with its position: the path of keys, and the kinds of
/// the objects on it. Skips texts that a parser may compare with known words.
fn visit(value: &mut Value, position: &str, with: &mut impl FnMut(&str, &mut String)) {
    match value {
        Value::String(text) => with(position, text),
        Value::Array(items) => {
            let position = format!("{position}[]");
            items.iter_mut().for_each(|item| visit(item, &position, with));
        }
        Value::Object(map) => {
            let kinds = COMPARED.iter().filter_map(|key| map.get(*key)?.as_str());
            let kinds: Vec<&str> = kinds.filter(|kind| kind.len() <= MAX_KIND).collect();
            let position = format!("{position}{{{}}}", kinds.join("/"));
            for (key, value) in map {
                let is_id = ID_ENDINGS.iter().any(|ending| key.ends_with(ending));
                if !COMPARED.contains(&key.as_str()) && !is_id {
                    visit(value, &format!("{position}.{key}"), with);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> RecordingEntry {
        serde_json::from_value(serde_json::json!({"t": 0.0, "in": {"line": {
            "proc": 1, "pipe": "stdout", "text": text, "truncated": false
        }}}))
        .unwrap()
    }

    #[test]
    fn only_the_texts_of_the_reply_are_changed() {
        let entries = [
            entry(
                r#"{"type":"say","parts":[{"body":"Hello "},{"body":"42 worlds."}],"id":"Hello"}"#,
            ),
            entry(r#"{"type":"user","parts":[{"body":"Hello there"}]}"#),
            entry("Hello from a log"),
        ];
        let scramble = Scramble::new(7);
        let positions = positions_of(&entries[..1], "Hello 42 worlds.");
        let changed = scramble.change(&entries, &positions);
        let expected = format!(
            r#"{{"id":"Hello","parts":[{{"body":"{}"}},{{"body":"{}"}}],"type":"say"}}"#,
            scramble.apply("Hello "),
            scramble.apply("42 worlds.")
        );
        assert_eq!(changed[0], entry(&expected));
        assert_eq!(changed[1..], entries[1..]);
        assert!(positions_of(&entries, "Goodbye").is_empty());
        assert_eq!(positions_of_prose(&entries).len(), 3);
    }

    #[test]
    fn every_letter_and_digit_becomes_another_one() {
        for seed in 0..50 {
            let all = "abcdefghijklmnopqrstuvwxyz ABC 0123456789 é";
            let changed = Scramble::new(seed).apply(all);
            let differs = |(a, b): (char, char)| a != b || !a.is_ascii_alphanumeric();
            assert!(all.chars().zip(changed.chars()).all(differs), "{changed}");
            let letters: BTreeSet<char> = changed.chars().take(26).collect();
            assert_eq!(letters.len(), 26);
        }
    }
}
