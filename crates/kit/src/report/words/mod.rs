//! Replaces the words of people, paths, ids and secrets in a recording by placeholders.
//!
//! A *word* is a run of letters, digits and `_` in any text. Each gets a placeholder of the same
//! length and kinds of characters, the same wherever the word occurs, so that ids of calls and
//! sessions still match. Words that the fault needs are kept: a minimal set of them is found by
//! delta debugging. `texts` finds the words of an entry, and `vocabulary` has the words of a whole
//! recording.

mod texts;
mod vocabulary;

use std::collections::BTreeSet;

pub(super) use self::texts::is_kind;

use self::texts::{context_in, map_entry, map_words};
use self::vocabulary::Vocabulary;
use super::ddmin::ddmin;
use super::trials::FaultTrials;
use aetheel_recording::RecordingEntry;

/// Sources of words that decide whether a word may be kept.
#[derive(Clone, Copy)]
pub(super) struct WordSources<'a> {
    /// Words that never count as identifiers, for example the name of the user.
    pub(super) private: &'a [String],
    /// The component's file. It contains the messages with which its parser compares the output.
    pub(super) component: &'a [u8],
}

/// A word that a fault needs, and that may come from people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededWord {
    /// The index of the entry.
    pub entry: usize,
    /// The word.
    pub word: String,
}

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
    let mut words = Vocabulary::default();
    for (at, entry) in entries.iter().enumerate() {
        map_entry(entry, &mut |word, context| words.add(word, context, at));
    }
    let replaced = |keep: &BTreeSet<usize>| -> (Vec<RecordingEntry>, Option<String>) {
        let mut replace = |word: &str, context| words.replacement(word, context, keep);
        let changed = entries.iter().filter_map(|entry| map_entry(entry, &mut replace)).collect();
        let expected = expected.map(|text| {
            let context = context_in(entries, text);
            map_words(text, context, &mut |word, context| words.replacement(word, context, keep))
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
    let needed = ddmin(candidates.len(), async |keep: &[usize]| {
        let keep = keep.iter().map(|at| candidates[*at]).chain(kinds.clone()).collect();
        let (changed, text) = replaced(&keep);
        trials.expect(text);
        trials.show(&changed).await
    })
    .await;
    let keep: BTreeSet<usize> =
        needed.into_iter().map(|at| candidates[at]).chain(kinds.clone()).collect();
    let foreign = words.foreign(entries, &keep, sources.component);
    let (entries, expected) = replaced(&keep);
    trials.expect(expected.clone());
    let needed = keep.iter().filter(|at| {
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
