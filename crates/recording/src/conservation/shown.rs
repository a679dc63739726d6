//! Collects the text that reached people, a tool or the agent itself, and finds parts of it in
//! other text.

use std::collections::{HashMap, HashSet, VecDeque};

use serde::Serialize;
use serde_json::Value;

use aetheel_model::agent::TurnKey;

/// Number of consecutive letters and digits that must agree for text to count as shown.
pub(super) const GRAM: usize = 8;
/// Maximum size of all complete texts, in bytes. The oldest are dropped first.
const LIMIT: usize = 1 << 20;
/// Maximum number of texts that are streamed at the same time, and the maximum size of each in
/// bytes.
const STREAMS: usize = 256;
const STREAM_LIMIT: usize = 256 << 10;

type StreamKey = (StreamKind, TurnKey, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StreamKind {
    Answer,
    /// Text of an answer that its backend withdrew, so that people no longer see it.
    Withdrawn,
    /// Thinking, or text of another agent that this one asked.
    Aside,
    ToolOutput,
}

/// The text that reached people, a tool or the agent itself.
#[derive(Default)]
pub(super) struct ShownText {
    whole: VecDeque<String>,
    bytes: usize,
    streams: HashMap<StreamKey, String>,
    /// Whether a text has left `streams`, so that its kind is not known any more.
    overflowed: bool,
}

impl ShownText {
    pub(super) fn add(&mut self, text: &str) {
        if text.is_empty() || text.len() > LIMIT {
            return;
        }
        self.bytes += text.len();
        self.whole.push_back(text.to_owned());
        while self.bytes > LIMIT {
            let Some(oldest) = self.whole.pop_front() else { return };
            self.bytes -= oldest.len();
        }
    }

    /// Adds every string in a value.
    pub(super) fn add_all(&mut self, value: &impl Serialize) {
        if let Ok(value) = serde_json::to_value(value) {
            self.add_strings(&value);
        }
    }

    fn add_strings(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.add(text);
                // The input of a tool is JSON in a string.
                if text.starts_with(['{', '['])
                    && let Ok(inner) = serde_json::from_str::<Value>(text)
                {
                    self.add_strings(&inner);
                }
            }
            Value::Array(list) => list.iter().for_each(|item| self.add_strings(item)),
            Value::Object(map) => map.values().for_each(|item| self.add_strings(item)),
            _ => {}
        }
    }

    pub(super) fn stream(&mut self, key: StreamKey, piece: &str) {
        if self.streams.len() >= STREAMS && !self.streams.contains_key(&key) {
            self.overflowed = true;
            for ((kind, ..), text) in std::mem::take(&mut self.streams) {
                if kind != StreamKind::Withdrawn {
                    self.add(&text);
                }
            }
        }
        let text = self.streams.entry(key).or_default();
        text.push_str(piece);
        if text.len() > STREAM_LIMIT {
            let text = std::mem::take(text);
            self.overflowed = true;
            self.add(&text);
        }
    }

    /// Removes a streamed text that people no longer see.
    pub(super) fn withdraw(&mut self, key: &StreamKey) {
        let text = self.streams.remove(key);
        if let (Some(text), (StreamKind::Answer, turn, part)) = (text, key) {
            self.stream((StreamKind::Withdrawn, *turn, part.clone()), &text);
        }
    }

    /// Builds an index of the text collected so far, without withdrawn text.
    pub(super) fn index(&self) -> ShownIndex {
        let is_shown = |(key, _): &(&StreamKey, _)| key.0 != StreamKind::Withdrawn;
        let streams = self.streams.iter().filter(is_shown).map(|(_, text)| text);
        ShownIndex::new(self.whole.iter().chain(streams))
    }

    /// Builds an index of the text collected so far, with the text that was shown for some time.
    pub(super) fn index_with_withdrawn(&self) -> ShownIndex {
        ShownIndex::new(self.whole.iter().chain(self.streams.values()))
    }

    /// Builds an index of the streamed text of some kinds. Returns `None` if there was too much
    /// streamed text to keep all of it.
    pub(super) fn streamed(&self, kinds: &[StreamKind]) -> Option<ShownIndex> {
        let of_kind = self.streams.iter().filter(|(key, _)| kinds.contains(&key.0));
        (!self.overflowed).then(|| ShownIndex::new(of_kind.map(|(_, text)| text)))
    }
}

/// An index of shown text, by hashes of [`GRAM`] characters.
#[derive(Default)]
pub(super) struct ShownIndex {
    grams: HashSet<u64>,
    all: String,
}

impl ShownIndex {
    fn new<'a>(texts: impl Iterator<Item = &'a String>) -> Self {
        let mut index = Self::default();
        for text in texts {
            let chars: Vec<char> = normal(text).chars().collect();
            if chars.is_empty() {
                index.all.push_str(text.trim());
            }
            index.grams.extend(chars.windows(GRAM).map(hash));
            index.all.extend(chars);
            index.all.push(' ');
        }
        index
    }

    /// Returns whether a text has nothing to read, or some of it was shown.
    pub(super) fn has_some_of(&self, text: &str) -> bool {
        let chars: Vec<char> = normal(text).chars().collect();
        // Nothing is left of an emoji, for example.
        let is_blank = chars.is_empty() && self.all.contains(text.trim());
        is_blank || self.covered(&chars).contains(&true)
    }

    /// Returns for each character of a normalised text whether it was shown.
    pub(super) fn covered(&self, text: &[char]) -> Vec<bool> {
        let mut covered = vec![false; text.len()];
        if text.len() < GRAM {
            let whole: String = text.iter().collect();
            covered.fill(self.all.contains(&whole));
        }
        for (at, gram) in text.windows(GRAM).enumerate() {
            if self.grams.contains(&hash(gram)) {
                covered[at..at + GRAM].fill(true);
            }
        }
        covered
    }
}

/// Normalises a text: keeps its letters and digits, in lower case, so that formatting and the
/// borders between pieces make no difference.
pub(super) fn normal(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the FNV-1a hash of some characters.
fn hash(gram: &[char]) -> u64 {
    gram.iter().fold(0xcbf2_9ce4_8422_2325, |hash, c| {
        (hash ^ u64::from(u32::from(*c))).wrapping_mul(0x0100_0000_01b3)
    })
}
