//! The words of a recording with their placeholders, and the rules about words that may be kept.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::texts::{MAX_KEPT_DIGITS, WordContext, is_word_part, map_contract};
use crate::seeded_rng::SeededRng;
use aetheel_recording::RecordingEntry;

/// Longest word that may be kept, in bytes.
const MAX_KEPT_WORD: usize = 40;

/// Stands for a word that is not looked at. A character for private use, which JSON does not escape.
const SKIPPED: &str = "\u{e000}";

/// A word in one kind of text.
type Word = (String, WordContext);

/// The words of a recording in the order of their first use, with their placeholders.
#[derive(Default)]
pub(super) struct Vocabulary {
    pub(super) order: Vec<Word>,
    /// The index of the last entry with each word.
    pub(super) entries: Vec<usize>,
    indexes: HashMap<Word, usize>,
    placeholders: HashMap<String, String>,
    used: BTreeSet<String>,
}

impl Vocabulary {
    /// Adds a word of an entry and returns it unchanged.
    pub(super) fn add(&mut self, word: &str, context: WordContext, entry: usize) -> String {
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

    pub(super) fn replacement(
        &self,
        word: &str,
        context: WordContext,
        keep: &BTreeSet<usize>,
    ) -> String {
        match self.indexes.get(&(word.to_owned(), context)) {
            Some(at) if keep.contains(at) => word.to_owned(),
            _ => self.placeholders.get(word).cloned().unwrap_or_else(|| placeholder(word, 0)),
        }
    }

    /// Returns whether a word may be kept if the fault needs it.
    pub(super) fn is_identifier(&self, at: usize, private: &[String]) -> bool {
        let (word, context) = &self.order[at];
        let is_code = word.bytes().all(|b| b.is_ascii_digit());
        (*context == WordContext::Identifier || is_code) && is_public(word, private)
    }

    /// Returns whether a word names the kind of an object and is kept in any case.
    pub(super) fn is_kind(&self, at: usize, private: &[String]) -> bool {
        let (word, context) = &self.order[at];
        *context == WordContext::Kind && is_public(word, private)
    }

    /// Returns whether a word may be kept if the fault needs it, and the component contains it.
    pub(super) fn is_text(&self, at: usize, private: &[String]) -> bool {
        let (word, context) = &self.order[at];
        *context == WordContext::Text && is_public(word, private)
    }

    /// Returns the kept words of texts that are not in the component. Adjacent words are searched
    /// together.
    pub(super) fn foreign(
        &self,
        entries: &[RecordingEntry],
        keep: &BTreeSet<usize>,
        component: &[u8],
    ) -> BTreeSet<String> {
        let mut skipped = 0;
        let mut only_texts = |word: &str, context| {
            let at = self.indexes.get(&(word.to_owned(), context));
            let is_kept = context == WordContext::Text && at.is_some_and(|at| keep.contains(at));
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

/// Returns whether a word is short, not an id, and not private.
fn is_public(word: &str, private: &[String]) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() <= MAX_KEPT_WORD
        && digits <= MAX_KEPT_DIGITS
        && !private.iter().any(|private| private.eq_ignore_ascii_case(word))
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
}
