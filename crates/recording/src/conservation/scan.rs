//! Finds the texts in raw output by their position.
//!
//! A position is the path of keys that leads to a text, without the indices of lists. All pieces of
//! a streamed text have the same position.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;

use serde_json::Value;

use super::prose::{is_plain_prose, is_prose};
use super::shown::{GRAM, ShownIndex, normal};
use aetheel_model::baseline::{Baseline, Positions};

/// Keys whose values name the kind of an object. They distinguish positions.
const KINDS: [&str; 7] = ["type", "subtype", "kind", "method", "event", "role", "sessionUpdate"];
/// Endings of keys whose values are names of things, which are not answers.
const LABELS: [&str; 4] = ["title", "name", "label", "description"];
/// Keys that contain the id of the message to which an object belongs.
const MESSAGE_IDS: [&str; 3] = ["messageID", "messageId", "message_id"];
/// Maximum length of a value of [`KINDS`], in bytes.
const KIND_LIMIT: usize = 40;
/// Number of texts at one position of one line from which they are taken for a list of names, such
/// as the agent's commands.
const MIN_CATALOG_ITEMS: usize = 3;
/// Number of words from which a text in such a list is a paragraph also without a final mark.
const MIN_PARAGRAPH_WORDS: usize = 8;
/// Keys of an object that is an entry of a list of things, not a part of a text.
const THINGS: [&str; 5] = ["id", "key", "value", "command", "path"];
/// Maximum size and number of lines that are joined to find JSON that was broken into lines.
const PENDING_LIMIT: usize = 64 << 10;
const PENDING_LINES: usize = 64;
/// Maximum number of shown characters inside a stretch of text that was not shown.
const MAX_GAP: usize = 8;
/// Number of characters a text must share with shown text at its beginning to count as shown in
/// part.
const MIN_HEAD: usize = 64;

/// The position of lines that are not JSON.
const PLAIN: &str = "plain text";

/// The texts of raw output by position.
#[derive(Default)]
pub(super) struct Scan {
    positions: BTreeMap<String, (String, Vec<String>)>,
    /// The number of lines with an object of a kind, or with a text at a position.
    counts: BTreeMap<String, usize>,
    /// Lines that are not JSON so far, but may be the beginning of it.
    pending: Vec<String>,
    /// Ids of messages that people or the agent's own instructions wrote.
    prompts: HashSet<String>,
}

impl Scan {
    /// Adds one line or body. Without `with_texts`, only finds out which messages people wrote.
    pub(super) fn unit(&mut self, text: &str, with_texts: bool) {
        if let Ok(value) = serde_json::from_str::<Value>(text)
            && (value.is_object() || value.is_array())
        {
            self.flush();
            return self.value(&value, with_texts);
        }
        if !with_texts {
            return self.flush();
        }
        self.pending.push(text.to_owned());
        let joined = self.pending.concat();
        match serde_json::from_str::<Value>(&joined) {
            Ok(value) if value.is_object() || value.is_array() => {
                self.pending.clear();
                self.value(&value, true);
            }
            _ if joined.len() > PENDING_LIMIT
                || self.pending.len() >= PENDING_LINES
                || !joined.starts_with(['{', '[']) =>
            {
                self.flush()
            }
            _ => {}
        }
    }

    /// Ends the scan: takes lines that are still incomplete JSON for plain text.
    pub(super) fn flush(&mut self) {
        let text = std::mem::take(&mut self.pending).join("\n");
        if !text.is_empty() {
            self.plain(&text);
        }
    }

    fn plain(&mut self, text: &str) {
        self.add("text".to_owned(), PLAIN.to_owned(), text.trim());
    }

    fn value(&mut self, value: &Value, with_texts: bool) {
        let (mut found, mut objects) = (Vec::new(), BTreeSet::new());
        let place = Place { key: String::new(), path: String::new(), is_thing: false };
        walk(value, place, &mut self.prompts, &mut objects, &mut found);
        if !with_texts {
            return;
        }
        objects.extend(found.iter().map(|(place, _)| place.key.clone()));
        for name in objects {
            *self.counts.entry(name).or_default() += 1;
        }
        let mut counts = BTreeMap::<String, usize>::new();
        for (place, _) in &found {
            *counts.entry(place.key.clone()).or_default() += 1;
        }
        for (Place { key, path, is_thing }, text) in found {
            let is_catalog = counts.get(&key).is_some_and(|count| *count >= MIN_CATALOG_ITEMS);
            if !is_catalog || (!is_thing && is_paragraph(text)) {
                self.add(key, path, text);
            }
        }
    }

    /// Adds a text at a position, which has this path.
    fn add(&mut self, position: String, path: String, text: &str) {
        // A placeholder instead of a text, such as `(no content)`.
        if text.starts_with('(') && text.ends_with(')') {
            return;
        }
        let (_, texts) = self.positions.entry(position).or_insert_with(|| (path, Vec::new()));
        if text.len() < 12 || !texts.iter().any(|known| known == text) {
            texts.push(text.to_owned());
        }
    }

    /// Returns the path of a text that looks like an answer and was not shown, except at positions
    /// that the baseline ignores.
    pub(super) fn unaccounted(
        &self,
        shown: &ShownIndex,
        baseline: Option<&Baseline>,
    ) -> Option<String> {
        let lost = self.positions.iter().find(|(position, (path, texts))| {
            if path == PLAIN {
                // Each plain line is examined alone.
                let lost = |text| is_lost(std::slice::from_ref(text), shown, is_plain_prose);
                return texts.iter().any(lost);
            }
            !baseline.is_some_and(|baseline| baseline.ignores(position))
                && is_lost(texts, shown, is_prose)
        });
        lost.map(|(_, (path, _))| path.clone())
    }

    /// Returns the path of an answer that was not shown. It may be short: it is found because the
    /// baseline knows that only answers appear at its position. The position may also be missing in
    /// an object that always has it. `read` has the text of answers only, because a short text is
    /// in other text by chance.
    pub(super) fn missing_answer(
        &self,
        read: &ShownIndex,
        shown: &ShownIndex,
        baseline: &Baseline,
    ) -> Option<String> {
        let is_shown = |text: &str| {
            read.has_some_of(text) || (normal(text).len() >= GRAM && shown.has_some_of(text))
        };
        let mut expected = baseline.expected_answers();
        expected.find_map(|position| match self.positions.get(position) {
            Some((path, texts)) if !is_shown(&texts.concat()) => Some(path.clone()),
            _ => self.lacks(position).then(|| without_kinds(position)),
        })
    }

    /// Returns the path of a part of an answer that was not shown, although another part was.
    pub(super) fn missing_part(&self, shown: &ShownIndex, baseline: &Baseline) -> Option<String> {
        baseline.answers().find_map(|position| match self.positions.get(position) {
            Some((path, texts)) if is_lost(texts, shown, is_prose) => Some(path.clone()),
            _ => self.lacks(position).then(|| without_kinds(position)),
        })
    }

    /// Returns whether the object in which a text usually is was printed without the text.
    fn lacks(&self, position: &str) -> bool {
        let count = |name| self.counts.get(name).copied().unwrap_or_default();
        position.rsplit_once('.').is_some_and(|(object, _)| count(object) > count(position))
    }

    /// Returns the positions of text that was shown, of text that looks like an answer and was not
    /// shown, and of text that was completely part of the answer, which is `read`. Lines that are
    /// not JSON have no position of their own.
    pub(super) fn positions(
        &self,
        shown: &ShownIndex,
        read: &ShownIndex,
        baseline: &Baseline,
    ) -> Positions {
        let mut positions = Positions::default();
        for (position, (path, texts)) in &self.positions {
            let text = texts.concat();
            let chars: Vec<char> = normal(&text).chars().collect();
            // A short word that is not prose, such as a type, matches shown text by chance.
            let is_short = chars.len() < GRAM && !is_prose(&text);
            let is_answer = read.covered(&chars).iter().all(|covered| *covered);
            if is_short && (is_answer || !baseline.is_answer(position)) {
                continue;
            }
            let is_kind = position.rsplit_once('.').is_some_and(|(_, key)| KINDS.contains(&key));
            let of_kind = if is_answer && !is_kind && !self.lacks(position) {
                &mut positions.answers
            } else if shown.covered(&chars).contains(&true) || baseline.is_answer(position) {
                &mut positions.shown
            } else if path != PLAIN && is_lost(texts, shown, is_prose) {
                &mut positions.beside
            } else {
                continue;
            };
            of_kind.insert(position.clone());
        }
        positions
    }
}

fn without_kinds(position: &str) -> String {
    let mut path = String::new();
    for (at, part) in position.split('<').enumerate() {
        path.push_str(if at == 0 { part } else { part.split_once('>').map_or("", |(_, key)| key) });
    }
    path.trim_start_matches('.').to_owned()
}

fn is_lost(texts: &[String], shown: &ShownIndex, prose: fn(&str) -> bool) -> bool {
    // Text of which people saw the beginning, such as the shortened output of a tool.
    let in_part = |text: &&String| {
        let chars: Vec<char> = letters(text).map(|(_, c)| c).collect();
        chars.len() > MIN_HEAD && shown.covered(&chars[..MIN_HEAD]).iter().all(|covered| *covered)
    };
    let short = |text: &&String| {
        let chars: Vec<char> = letters(text).map(|(_, c)| c).collect();
        chars.len() < GRAM && shown.covered(&chars).iter().all(|covered| *covered)
    };
    let fragments = texts.len() > 2 && texts.iter().filter(short).count() * 2 > texts.len();
    let joined: String = texts
        .iter()
        .filter(|text| !in_part(text) && (fragments || !short(text)))
        .map(String::as_str)
        .collect();
    let (places, chars): (Vec<usize>, Vec<char>) = letters(&joined).unzip();
    let covered = shown.covered(&chars);
    let mut run: Option<RangeInclusive<usize>> = None;
    for at in (0..chars.len()).filter(|at| !covered[*at]) {
        run = Some(match run {
            Some(run) if at - run.end() <= MAX_GAP => *run.start()..=at,
            Some(done) if prose(run_text(&joined, &places, &done)) => return true,
            _ => at..=at,
        });
    }
    run.is_some_and(|run| prose(run_text(&joined, &places, &run)))
}

/// Returns the part of a text that corresponds to a run of normalised characters, up to the
/// beginning of the next one. `places` has the byte offset of each normalised character.
fn run_text<'t>(text: &'t str, places: &[usize], run: &RangeInclusive<usize>) -> &'t str {
    let end = places.get(run.end() + 1).copied().unwrap_or(text.len());
    &text[places[*run.start()]..end]
}

/// Returns the letters and digits of a text in lower case, each with its byte offset.
fn letters(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    text.char_indices()
        .filter(|(_, c)| c.is_alphanumeric())
        .flat_map(|(at, c)| c.to_lowercase().map(move |lower| (at, lower)))
}

struct Place {
    /// The position.
    key: String,
    /// The position without the kinds of objects.
    path: String,
    /// Whether an object around it has a name or an id, and is in a list.
    is_thing: bool,
}

/// Returns whether a text in a list reads like a paragraph of an answer, and not like the
/// description of a command.
fn is_paragraph(text: &str) -> bool {
    let text = text.trim();
    is_prose(text)
        && (text.ends_with(['.', '!', '?', ':', '…'])
            || text.split_whitespace().count() >= MIN_PARAGRAPH_WORDS)
}

/// Collects the texts in a value with their places, and the kinds of its objects.
fn walk<'v>(
    value: &'v Value,
    place: Place,
    prompts: &mut HashSet<String>,
    objects: &mut BTreeSet<String>,
    found: &mut Vec<(Place, &'v str)>,
) {
    let Place { key, path, is_thing } = &place;
    match value {
        Value::String(text) => found.push((place, text)),
        Value::Array(list) => {
            for item in list {
                let names = item.as_object().into_iter().flat_map(|fields| fields.keys());
                let is_name = |name: &String| is_label(name) || THINGS.contains(&name.as_str());
                let place = Place {
                    key: format!("{key}[]"),
                    path: format!("{path}[]"),
                    is_thing: *is_thing || names.into_iter().any(is_name),
                };
                walk(item, place, prompts, objects, found);
            }
        }
        Value::Object(map) => {
            if map
                .get("role")
                .and_then(Value::as_str)
                .is_some_and(|role| ["user", "system", "developer"].contains(&role))
            {
                prompts.extend(map.get("id").and_then(Value::as_str).map(str::to_owned));
                return;
            }
            let message = map.iter().find(|(name, _)| MESSAGE_IDS.contains(&name.as_str()));
            let message = message.and_then(|(_, id)| id.as_str());
            if message.is_some_and(|id| prompts.contains(id)) {
                return;
            }
            let kinds: Vec<&str> = KINDS
                .iter()
                .filter_map(|kind| map.get(*kind)?.as_str())
                .filter(|kind| kind.len() <= KIND_LIMIT && !kind.contains(' '))
                .collect();
            let kinds = kinds.join(",");
            objects.insert(format!("{key}<{kinds}>"));
            for (name, item) in map.iter().filter(|(name, _)| !is_label(name)) {
                let dot = if path.is_empty() { "" } else { "." };
                let place = Place {
                    key: format!("{key}<{kinds}>.{name}"),
                    path: format!("{path}{dot}{name}"),
                    is_thing: *is_thing,
                };
                walk(item, place, prompts, objects, found);
            }
        }
        _ => {}
    }
}

/// Returns whether the values of a key are names of things, as in `title` and `promoLabel`.
fn is_label(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    LABELS.iter().any(|label| key.ends_with(label))
}
