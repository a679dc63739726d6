//! Replaces the words of people, paths, ids and secrets in a recording by placeholders.
//!
//! A *word* is a run of letters, digits and `_` in any text. Each gets a placeholder of the same
//! length and kinds of characters, the same wherever the word occurs, so that ids of calls and
//! sessions still match. Words that the fault needs are kept: a minimal set of them is found by
//! delta debugging.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Number, Value};

use super::ddmin::ddmin;
use super::trials::FaultTrials;
use crate::seeded_rng::SeededRng;
use aetheel_recording::RecordingEntry;

/// Fields of the contract whose strings name a variant of an enumeration.
const VARIANTS: [&str; 7] = ["pipe", "safety", "mode", "kind", "decision", "how", "command"];
/// Keys whose values name the kind of an object in the agent's output.
const KINDS: [&str; 4] = ["type", "subtype", "method", "sessionUpdate"];
/// Longest text of words without spaces that may be kept, and longest word in it, in bytes.
const MAX_IDENTIFIER: usize = 64;
const MAX_KEPT_WORD: usize = 40;
/// Most digits of a word that may be kept. Ids and keys have more.
const MAX_KEPT_DIGITS: usize = 3;
/// Numbers with fewer digits are not replaced: they are codes, versions and counters.
const MIN_NUMBER_DIGITS: usize = 5;

/// The kind of text in which a word occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum WordContext {
    /// A name of a field, type or method, such as `item/completed`.
    Identifier,
    /// One of [`KINDS`], or its value.
    Kind,
    /// Any other text: prose, a path, an id.
    Text,
    /// A number in JSON.
    Number,
}

/// Stands for a word that is not looked at. A character for private use, which JSON does not escape.
const SKIPPED: &str = "\u{e000}";

/// Sources of words that decide whether a word may be kept.
#[derive(Clone, Copy)]
pub(super) struct WordSources<'a> {
    /// Words that never count as identifiers, for example the name of the user.
    pub(super) private: &'a [String],
    /// The component's file. It contains the messages with which its parser compares the output.
    pub(super) component: &'a [u8],
}

/// A word in one kind of text.
type Word = (String, WordContext);

/// A word that a fault needs, and that may come from people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededWord {
    /// The index of the entry.
    pub entry: usize,
    /// The word.
    pub word: String,
}

/// The result of replacing words.
pub(super) struct ReplacedWords {
    pub(super) entries: Vec<RecordingEntry>,
    /// The expected text with placeholders.
    pub(super) expected: Option<String>,
    /// Words that were kept although they may come from people.
    pub(super) needed: Vec<NeededWord>,
}

/// Replaces all words that the fault does not need.
pub(super) async fn replace_words(
    trials: &mut FaultTrials<'_>,
    entries: &[RecordingEntry],
    expected: Option<&str>,
    sources: WordSources<'_>,
) -> ReplacedWords {
    let private = sources.private;
    let mut words = Words::default();
    for (at, entry) in entries.iter().enumerate() {
        map_entry(entry, &mut |word, context| words.add(word, context, at));
    }
    let replaced = |kept: &BTreeSet<usize>| -> (Vec<RecordingEntry>, Option<String>) {
        let mut replace = |word: &str, context| words.replacement(word, context, kept);
        let changed = entries.iter().filter_map(|entry| map_entry(entry, &mut replace)).collect();
        let expected = expected.map(|text| {
            let context = context_in(entries, text);
            map_words(text, context, &mut |word, context| words.replacement(word, context, kept))
        });
        (changed, expected)
    };
    let kinds: BTreeSet<usize> =
        (0..words.order.len()).filter(|at| words.is_kind(*at, private)).collect();
    // Most faults need only identifiers.
    let mut candidates: Vec<usize> =
        (0..words.order.len()).filter(|at| !kinds.contains(at)).collect();
    let identifiers: Vec<usize> =
        candidates.iter().copied().filter(|at| words.is_identifier(*at, private)).collect();
    let (changed, text) = replaced(&identifiers.iter().chain(&kinds).copied().collect());
    trials.expect(text);
    if trials.show(&changed).await {
        candidates = identifiers;
    }
    let kept = ddmin(candidates.len(), async |kept: &[usize]| {
        let kept = kept.iter().map(|at| candidates[*at]).chain(kinds.clone()).collect();
        let (changed, text) = replaced(&kept);
        trials.expect(text);
        trials.show(&changed).await
    })
    .await;
    let kept: BTreeSet<usize> =
        kept.into_iter().map(|at| candidates[at]).chain(kinds.clone()).collect();
    let foreign = words.foreign(entries, &kept, sources.component);
    let (entries, expected) = replaced(&kept);
    trials.expect(expected.clone());
    let needed = kept.iter().filter(|at| {
        !kinds.contains(*at)
            && !words.is_identifier(**at, private)
            && (!words.is_text(**at, private) || foreign.contains(&words.order[**at].0))
    });
    let needed = needed.map(|at| {
        let (entry, word) = (words.entries[*at], words.order[*at].0.clone());
        NeededWord { entry, word }
    });
    let needed = needed.collect();
    ReplacedWords { entries, expected, needed }
}

/// The words of a recording in the order of their first use, with their placeholders.
#[derive(Default)]
struct Words {
    order: Vec<Word>,
    /// The index of the last entry with each word.
    entries: Vec<usize>,
    indexes: HashMap<Word, usize>,
    placeholders: HashMap<String, String>,
    used: BTreeSet<String>,
}

impl Words {
    /// Adds a word of an entry and returns it unchanged.
    fn add(&mut self, word: &str, context: WordContext, entry: usize) -> String {
        let key = (word.to_owned(), context);
        if let Some(known) = self.indexes.get(&key) {
            self.entries[*known] = entry;
        } else {
            self.indexes.insert(key.clone(), self.order.len());
            self.order.push(key);
            self.entries.push(entry);
            if !self.placeholders.contains_key(word) {
                let mut seed = self.placeholders.len() as u64;
                let mut new = placeholder(word, seed);
                // Short words have few placeholders, which are used again.
                while word.len() > 3 && self.used.contains(&new) {
                    seed += 1_000_003;
                    new = placeholder(word, seed);
                }
                self.used.insert(new.clone());
                self.placeholders.insert(word.to_owned(), new);
            }
        }
        word.to_owned()
    }

    fn replacement(&self, word: &str, context: WordContext, kept: &BTreeSet<usize>) -> String {
        match self.indexes.get(&(word.to_owned(), context)) {
            Some(at) if kept.contains(at) => word.to_owned(),
            _ => self.placeholders.get(word).cloned().unwrap_or_else(|| placeholder(word, 0)),
        }
    }

    /// Returns whether a word may be kept if the fault needs it.
    fn is_identifier(&self, at: usize, private: &[String]) -> bool {
        let (word, context) = &self.order[at];
        let is_code = word.bytes().all(|b| b.is_ascii_digit());
        (*context == WordContext::Identifier || is_code) && is_public(word, private)
    }

    /// Returns whether a word names the kind of an object and is kept in any case.
    fn is_kind(&self, at: usize, private: &[String]) -> bool {
        let (word, context) = &self.order[at];
        *context == WordContext::Kind && is_public(word, private)
    }

    /// Returns whether a word may be kept if the fault needs it, and the component contains it.
    fn is_text(&self, at: usize, private: &[String]) -> bool {
        let (word, context) = &self.order[at];
        *context == WordContext::Text && is_public(word, private)
    }

    /// Returns the kept words of texts that are not in the component. Adjacent words are searched
    /// together.
    fn foreign(
        &self,
        entries: &[RecordingEntry],
        kept: &BTreeSet<usize>,
        component: &[u8],
    ) -> BTreeSet<String> {
        let mut skipped = 0;
        let mut only_texts = |word: &str, context| {
            let at = self.indexes.get(&(word.to_owned(), context));
            let is_kept = context == WordContext::Text && at.is_some_and(|at| kept.contains(at));
            if is_kept {
                return word.to_owned();
            }
            // Keys of an object must stay different.
            skipped += 1;
            SKIPPED.repeat(skipped)
        };
        let mut texts = Vec::new();
        for entry in entries {
            let Ok(mut value) = serde_json::to_value(entry) else { continue };
            map_contract(&mut value, "", &mut only_texts);
            collect_texts(&value, &mut texts);
        }
        let runs = texts.iter().flat_map(|text| text.split(SKIPPED));
        let runs = runs.map(|run| run.trim_matches(|c: char| !c.is_alphanumeric()));
        let is_foreign = |run: &&str| {
            !run.is_empty() && !component.windows(run.len()).any(|part| part == run.as_bytes())
        };
        let words = runs.filter(is_foreign).flat_map(|run| run.split(|c| !is_word_part(c)));
        words.map(str::to_owned).collect()
    }
}

/// Returns whether the value of a key names the kind of an object.
pub(super) fn is_kind(key: &str) -> bool {
    KINDS.contains(&key)
}

/// Returns whether a word is short, not an id, and not private.
fn is_public(word: &str, private: &[String]) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() <= MAX_KEPT_WORD
        && digits <= MAX_KEPT_DIGITS
        && !private.iter().any(|private| private.eq_ignore_ascii_case(word))
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Collects all strings and keys in a value.
fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|item| collect_texts(item, texts)),
        _ => {}
    }
}

/// Returns a made-up word with the same length and kinds of characters.
fn placeholder(word: &str, seed: u64) -> String {
    const CONSONANTS: &[u8] = b"bdfgklmnprstvz";
    const VOWELS: &[u8] = b"aeiou";
    let mut rng = SeededRng::new(seed);
    let mut pick = |from: &[u8]| char::from(from[rng.below(from.len())]);
    let is_hex = word.len() >= 6
        && word.bytes().all(|b| b.is_ascii_hexdigit())
        && word.bytes().any(|b| b.is_ascii_digit());
    let mut letters = 0_usize;
    let made = word.chars().enumerate().map(|(at, c)| match c {
        '_' => '_',
        _ if is_hex => pick(b"0123456789abcdef"),
        c if c.is_numeric() => pick(if at == 0 { b"123456789" } else { b"0123456789" }),
        c => {
            letters += 1;
            let letter = pick(if letters.is_multiple_of(2) { VOWELS } else { CONSONANTS });
            if c.is_uppercase() { letter.to_ascii_uppercase() } else { letter }
        }
    });
    made.collect()
}

/// Calls `map` with each word of an entry, and returns the entry with the results in their place.
/// Returns `None` if the result is not an entry.
fn map_entry(
    entry: &RecordingEntry,
    map: &mut impl FnMut(&str, WordContext) -> String,
) -> Option<RecordingEntry> {
    let mut value = serde_json::to_value(entry).ok()?;
    map_contract(&mut value, "", map);
    serde_json::from_value(value).ok()
}

/// Maps the texts in a value of the contract, whose field names stay.
fn map_contract(value: &mut Value, field: &str, map: &mut impl FnMut(&str, WordContext) -> String) {
    match value {
        Value::String(text) if !VARIANTS.contains(&field) => *text = map_text(text, map),
        Value::Array(list) => list.iter_mut().for_each(|item| map_contract(item, field, map)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(field, value)| map_contract(value, field, map));
        }
        _ => {}
    }
}

/// Maps the words of a text, which may be JSON.
fn map_text(text: &str, map: &mut impl FnMut(&str, WordContext) -> String) -> String {
    let parsed = serde_json::from_str::<Value>(text);
    let structure = parsed.ok().filter(|value| value.is_object() || value.is_array());
    // In another notation, the words are replaced without looking at the structure.
    let written = structure.as_ref().map(Value::to_string);
    match structure {
        Some(value) if written.as_deref() == Some(text) => map_json(value, map).to_string(),
        _ => map_words(text, context_of(text), map),
    }
}

fn map_json(value: Value, map: &mut impl FnMut(&str, WordContext) -> String) -> Value {
    match value {
        Value::String(text) => map_text(&text, map).into(),
        Value::Array(list) => list.into_iter().map(|item| map_json(item, map)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, item)| {
                let item = match item {
                    Value::String(text)
                        if is_kind(&key) && context_of(&text) == WordContext::Identifier =>
                    {
                        map_words(&text, WordContext::Kind, map).into()
                    }
                    item => map_json(item, map),
                };
                let context = if is_kind(&key) { WordContext::Kind } else { context_of(&key) };
                (map_words(&key, context, map), item)
            });
            Value::Object(fields.collect::<Map<String, Value>>())
        }
        Value::Number(number) => Value::Number(map_number(number, map)),
        other => other,
    }
}

fn map_number(number: Number, map: &mut impl FnMut(&str, WordContext) -> String) -> Number {
    let text = number.to_string();
    if text.bytes().filter(u8::is_ascii_digit).count() < MIN_NUMBER_DIGITS {
        return number;
    }
    let mapped = map(&text, WordContext::Number);
    if mapped == text {
        return number;
    }
    // The placeholder of a fraction is not a number.
    mapped.parse::<i64>().map_or_else(|_| Number::from(12_345), Number::from)
}

fn map_words(
    text: &str,
    context: WordContext,
    map: &mut impl FnMut(&str, WordContext) -> String,
) -> String {
    let (mut mapped, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find(is_word_part) {
        mapped.push_str(&rest[..start]);
        let word = &rest[start..];
        let end = word.find(|c| !is_word_part(c)).unwrap_or(word.len());
        mapped.push_str(&map(&word[..end], context));
        rest = &word[end..];
    }
    mapped + rest
}

/// Returns whether a text is a name or anything else.
fn context_of(text: &str) -> WordContext {
    let mut before = '/';
    let is_separator = |c: char| matches!(c, '/' | '.' | ':' | '-');
    let fits = text.chars().all(|c| {
        let fits =
            c.is_ascii_alphanumeric() || c == '_' || (is_separator(c) && !is_separator(before));
        before = c;
        fits
    });
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if fits && !text.is_empty() && text.len() <= MAX_IDENTIFIER && digits <= MAX_KEPT_DIGITS {
        WordContext::Identifier
    } else {
        WordContext::Text
    }
}

/// Returns the kind of text in which `wanted` occurs.
fn context_in(entries: &[RecordingEntry], wanted: &str) -> WordContext {
    fn is_whole(value: &Value, wanted: &str) -> bool {
        match value {
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(inner) if inner.is_object() || inner.is_array() => is_whole(&inner, wanted),
                _ => text.contains(wanted) && context_of(text) == WordContext::Identifier,
            },
            Value::Array(list) => list.iter().any(|item| is_whole(item, wanted)),
            Value::Object(fields) => fields.values().any(|item| is_whole(item, wanted)),
            _ => false,
        }
    }
    let found = |entry: &RecordingEntry| {
        serde_json::to_value(entry).is_ok_and(|value| is_whole(&value, wanted))
    };
    match entries.iter().any(found) {
        true => WordContext::Identifier,
        false => WordContext::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_keep_the_shape_and_nothing_else() {
        for word in ["Alice", "b5ee77a5", "run_shell_97aea4d692", "2026", "Überall", "ä"] {
            let made = placeholder(word, 7);
            assert_eq!(made.chars().count(), word.chars().count(), "{made}");
            assert_ne!(made, word);
            assert_eq!(made, placeholder(word, 7));
        }
        assert!(placeholder("b5ee77a5", 1).bytes().all(|b| b.is_ascii_hexdigit()));
    }

    #[test]
    fn names_are_told_apart_from_paths_ids_and_prose() {
        for name in ["type", "item/agentMessage/delta", "session_id", "gpt-5.5", "v1:done"] {
            assert_eq!(context_of(name), WordContext::Identifier, "{name}");
        }
        for text in [
            "/home/alice/x",
            "alice@example.com",
            "https://host/x",
            "two words",
            "b5ee77a5-1b14-4ffd-b18a-e29518414451",
            "sk-live-83920184",
            "",
        ] {
            assert_eq!(context_of(text), WordContext::Text, "{text}");
        }
    }

    #[test]
    fn words_are_replaced_in_json_inside_json_and_in_keys() {
        let mut seen = Vec::new();
        let text = r#"{"a b":"{\"key\":\"x y\"}","n":123456,"small":12}"#;
        let mapped = map_text(text, &mut |word, context| {
            seen.push((word.to_owned(), context));
            word.to_uppercase()
        });
        assert_eq!(mapped, r#"{"A B":"{\"KEY\":\"X Y\"}","N":123456,"SMALL":12}"#);
        assert!(seen.contains(&("key".to_owned(), WordContext::Identifier)));
        assert!(seen.contains(&("y".to_owned(), WordContext::Text)));
        assert!(seen.contains(&("123456".to_owned(), WordContext::Number)));
        let plain = "broken {\"say\": \"Bob";
        let mapped = map_text(plain, &mut |word, _| "x".repeat(word.len()));
        assert_eq!(mapped, "xxxxxx {\"xxx\": \"xxx");
    }
}
