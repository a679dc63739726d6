//! Compares how two versions of a backend read a recorded turn, by meaning. [`compare_recorded`]
//! compares a recording with one version.
//!
//! Both read the same inputs, and none of their actions is carried out. A recording cannot show the
//! consequences of another action, so every difference in actions with an effect (commands,
//! messages to the agent, questions, calls of tools, ends of turns) is harmful. Reports about the
//! agent may contain more than before. A report that is missing, whose content changed, or that
//! comes twice, is harmful. Log lines, the order of reports of different kinds, and the division of
//! a text into pieces do not count. `tests/rollout` tests this with damaged copies of the shipped
//! backends.

mod items;
mod recorded;
mod unknown;
mod value;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use self::items::{ItemClass, TurnItem};
pub use self::recorded::{RecordedComparison, compare_recorded};
use crate::RolloutPair;
use crate::replay::{Batches, ReplayResult, ReplayedTurn, endings, replay};
use crate::{Ending, GuestFailure};
use crate::{EntryKind, MASKED, ParsedRecording, ReadError, RecordingEntry, UNSEEN};
use aetheel_model::agent::{Action, StartTurn, TurnKey};

/// Maximum size of a recording that is compared, in bytes.
pub const MAX_COMPARED_BYTES: u64 = 8 << 20;
/// Maximum time for reading one turn with both versions.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_DIFFERENCES: usize = 50;
const MAX_TEXT_CHARS: usize = 160;

/// A difference between the two readings of a turn. `None` on one side means that it has no such
/// item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TurnDifference {
    /// The line of the recording.
    pub line: usize,
    /// The kind of the item, for example `answer`.
    pub what: &'static str,
    /// The item of the serving version, or of the recording.
    pub before: Option<String>,
    /// The item of the new version.
    pub now: Option<String>,
    /// Whether the new version must not serve because of it.
    pub harmful: bool,
}

/// The reason why a turn was not compared. The texts are for operators.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The file cannot be read.
    #[error("the recording cannot be read: {0}")]
    Open(#[from] io::Error),
    /// The file is too large to read it for every turn.
    #[error("the recording is larger than {} MiB", MAX_COMPARED_BYTES >> 20)]
    TooLarge,
    /// The file is not a recording.
    #[error(transparent)]
    Format(#[from] ReadError),
    /// The turn is not in the recording.
    #[error("the recording does not contain this turn")]
    NoTurn,
    /// Lines of the recording were lost or left out.
    #[error("the recording is incomplete")]
    Incomplete,
    /// A secret was removed from an input, so that it is not what the serving version read.
    #[error("a secret was removed from the recording")]
    Masked,
    /// The time limit was reached.
    #[error("reading it takes longer than {} s", COMPARE_TIMEOUT.as_secs())]
    Timeout,
    /// The serving version cannot read the turn again.
    #[error("the serving version cannot read it again: {0}")]
    Serving(GuestFailure),
    /// The new version does not load the state that the serving version saved, so that the gateway
    /// would start a new agent.
    #[error("the new version does not continue a running agent of the serving version")]
    StateRefused,
}

/// Replays a recorded turn to both versions, and returns the differences in the order of the
/// recording. Takes at most 20 s.
///
/// # Errors
/// [`CompareError`] if the turn cannot be compared.
pub async fn compare_turn(
    pair: &RolloutPair,
    recording: &Path,
    turn: &str,
) -> Result<Vec<TurnDifference>, CompareError> {
    let (path, id) = (recording.to_owned(), turn.to_owned());
    let read = tokio::task::spawn_blocking(move || read(&path, &id));
    let (tape, turn) = read.await.map_err(io::Error::other)??;
    let compared = tokio::time::timeout(COMPARE_TIMEOUT, compare(pair, &tape, turn)).await;
    compared.unwrap_or(Err(CompareError::Timeout))
}

/// Reads a recording up to the end of a turn. Also returns the guest's key of the turn.
fn read(path: &Path, turn: &str) -> Result<(ParsedRecording, TurnKey), CompareError> {
    if fs::metadata(path)?.len() > MAX_COMPARED_BYTES {
        return Err(CompareError::TooLarge);
    }
    let mut tape = ParsedRecording::read_unfinished(&fs::read(path)?)?;
    let (key, _) = tape.beginning_of(turn).ok_or(CompareError::NoTurn)?;
    let is_end = |entry: &RecordingEntry| entry.is_end_of(turn) || entry.is_note(UNSEEN);
    if let Some(end) = tape.entries.iter().position(is_end) {
        tape.entries.truncate(end + 1);
    }
    for entry in &tape.entries {
        match &entry.kind {
            EntryKind::Lost(_) | EntryKind::Cut(_) => return Err(CompareError::Incomplete),
            EntryKind::Host(note) if note == MASKED => return Err(CompareError::Masked),
            _ => {}
        }
    }
    Ok((tape, key))
}

/// Compares the readings of one turn of a recording.
///
/// # Errors
/// [`CompareError`] if one of the versions cannot read the recording.
pub async fn compare(
    pair: &RolloutPair,
    tape: &ParsedRecording,
    turn: TurnKey,
) -> Result<Vec<TurnDifference>, CompareError> {
    let entries = &tape.entries;
    let serving = replay(&*pair.serving, entries, Batches::Single).await;
    let serving = serving.map_err(CompareError::Serving)?;
    if let Some((_, failure)) = serving.failure {
        return Err(CompareError::Serving(failure));
    }
    let successor = match replay(&*pair.successor, entries, Batches::Single).await {
        Ok(successor) => successor,
        Err(failure) => {
            let line = tape.lines.first().copied().unwrap_or(1);
            return Ok(vec![failed(line, &failure)]);
        }
    };
    if let Some((at, GuestFailure::Refused(_))) = &successor.failure
        && matches!(entries[*at].kind, EntryKind::Moved { .. })
    {
        return Err(CompareError::StateRefused);
    }
    let readings = Readings {
        tape,
        turn,
        before: Reading::of(tape, turn, &serving, &pair.serving.descriptor().version),
        now: Reading::of(tape, turn, &successor, &pair.successor.descriptor().version),
        is_incomplete: false,
    };
    let mut found = readings.differences();
    if let Some((at, failure)) = &successor.failure {
        found.push(failed(tape.lines[*at], failure));
    }
    Ok(most_important(found))
}

/// Returns at most [`MAX_DIFFERENCES`], harmful ones first, in the order of the recording.
fn most_important(mut found: Vec<TurnDifference>) -> Vec<TurnDifference> {
    found.sort_by_key(|difference| (!difference.harmful, difference.line));
    found.truncate(MAX_DIFFERENCES);
    found.sort_by_key(|difference| (difference.line, !difference.harmful));
    found
}

fn failed(line: usize, failure: &GuestFailure) -> TurnDifference {
    let now = Some(shortened(&failure.to_string()));
    TurnDifference { line, what: "failure", before: None, now, harmful: true }
}

/// A turn as one version read it.
struct Reading<'a> {
    replayed: &'a ReplayResult,
    turn: ReplayedTurn,
    ending: Option<Ending>,
    items: Vec<TurnItem>,
}

impl<'a> Reading<'a> {
    fn of(
        tape: &ParsedRecording,
        turn: TurnKey,
        replayed: &'a ReplayResult,
        version: &str,
    ) -> Self {
        Self {
            replayed,
            turn: replayed.turns.get(&turn).cloned().unwrap_or_default(),
            ending: endings(&tape.entries, replayed).remove(&turn),
            items: items::of_turn(&tape.entries, turn, replayed, version),
        }
    }

    fn is_unread(&self) -> bool {
        self.ending.as_ref().is_some_and(Ending::is_lost)
    }
}

struct Readings<'a> {
    tape: &'a ParsedRecording,
    turn: TurnKey,
    before: Reading<'a>,
    now: Reading<'a>,
    /// Whether the first one may lack actions, so that additional ones are not harmful.
    is_incomplete: bool,
}

impl Readings<'_> {
    fn differences(&self) -> Vec<TurnDifference> {
        let mut found = Vec::from_iter(self.unread());
        found.extend(self.texts());
        found.extend(self.unknown_output());
        found.extend(self.unreported_lines());
        let mut kinds: Vec<&'static str> = Vec::new();
        for item in self.before.items.iter().chain(&self.now.items) {
            if !kinds.contains(&item.kind) {
                kinds.push(item.kind);
            }
        }
        for kind in kinds {
            self.compare_items(kind, &mut found);
        }
        // An answer that only the new version can read has other ends and texts on purpose.
        if self.before.is_unread() && !self.now.is_unread() {
            for difference in &mut found {
                difference.harmful &= !matches!(difference.what, "answer" | "end");
            }
        }
        if self.is_incomplete {
            for difference in &mut found {
                difference.harmful &= difference.before.is_some();
            }
        }
        found
    }

    fn start(&self) -> Option<&StartTurn> {
        let mut starts = self.tape.entries.iter().filter_map(RecordingEntry::turn_start);
        starts.find(|start| start.turn == self.turn)
    }

    fn line(&self, entry: usize) -> usize {
        self.tape.lines[entry.min(self.tape.lines.len() - 1)]
    }

    /// Returns the first line at which the actions of the two differ.
    fn first_divergence(&self) -> usize {
        let (before, now) = (&self.before.replayed.steps, &self.now.replayed.steps);
        let differs = before.iter().zip(now).find(|(before, now)| before != now);
        let last = self.tape.lines.len() - 1;
        self.line(differs.map_or(last, |(before, now)| before.entry.min(now.entry)))
    }

    fn unread(&self) -> Option<TurnDifference> {
        let (before, now) = (self.before.is_unread(), self.now.is_unread());
        let answer = |is_unread| match is_unread {
            true => Some("an unread answer".to_owned()),
            false => Some("a readable answer".to_owned()),
        };
        (before != now).then(|| TurnDifference {
            line: self.first_divergence(),
            what: "readability",
            before: answer(before),
            now: answer(now),
            harmful: now,
        })
    }

    /// Compares the answer and the thoughts, whatever pieces they arrived in.
    fn texts(&self) -> Vec<TurnDifference> {
        let reads_more = !self.before.turn.transcript.unrecognised().is_empty();
        let (before, now) = (&self.before.turn, &self.now.turn);
        let thinking = [before, now].map(|turn| turn.transcript.thinking());
        let both = [("answer", [before.text(), now.text()]), ("thinking", thinking)];
        let goes_on =
            |before: &str, now: &str| self.is_incomplete && now.trim().starts_with(before.trim());
        let differing = both
            .into_iter()
            .filter(|(_, [before, now])| before.trim() != now.trim() && !goes_on(before, now));
        let visible = |text: String| Some(shortened(&text)).filter(|text| !text.is_empty());
        let differences = differing.map(|(what, [before, now])| TurnDifference {
            line: self.first_divergence(),
            what,
            harmful: !(before.trim().is_empty() || reads_more && now.contains(before.trim())),
            before: visible(before),
            now: visible(now),
        });
        differences.collect()
    }

    /// Returns the kinds of output that only the new version does not know.
    fn unknown_output(&self) -> Vec<TurnDifference> {
        let known = self.before.turn.transcript.unrecognised();
        let fresh = self.now.turn.transcript.unrecognised().keys();
        let fresh = fresh.filter(|what| !known.contains_key(*what));
        let reports = |action: &Action, what: &str| {
            action.unrecognised(Some(self.turn)).is_some_and(|unknown| unknown.what == what)
        };
        let differences = fresh.map(|what| {
            let mut steps = self.now.replayed.steps.iter();
            let at = steps.find(|step| step.actions.iter().any(|action| reports(action, what)));
            TurnDifference {
                line: at.map_or_else(|| self.first_divergence(), |step| self.line(step.entry)),
                what: "unknown output",
                before: None,
                now: Some(shortened(what)),
                harmful: true,
            }
        });
        differences.collect()
    }

    fn compare_items(&self, kind: &'static str, found: &mut Vec<TurnDifference>) {
        let of = |reading: &Reading<'_>| -> Vec<TurnItem> {
            reading.items.iter().filter(|item| item.kind == kind).cloned().collect()
        };
        let (before, now) = (of(&self.before), of(&self.now));
        let (all_before, all_now) = (before.clone(), now.clone());
        let has_effect = before.iter().chain(&now).any(|item| item.class == ItemClass::Effect);
        let matches = |before: &TurnItem, now: &TurnItem| match has_effect {
            true => before.value == now.value,
            false => value::covers(&now.value, &before.value),
        };
        let mut push = |entry, before: Option<&TurnItem>, now: Option<&TurnItem>| {
            let is_repeated =
                now.is_some_and(|item| before.is_none() && item.is_repeated(&all_before, &all_now));
            let (before_text, now_text) = TurnItem::texts(before, now);
            found.push(TurnDifference {
                line: self.line(entry),
                what: kind,
                before: before_text,
                now: now_text,
                harmful: before.is_some() || has_effect || is_repeated,
            });
        };
        let mut next = 0;
        for item in &before {
            match now[next..].iter().position(|other| matches(item, other)) {
                Some(skipped) => {
                    for more in &now[next..next + skipped] {
                        push(more.entry, None, Some(more));
                    }
                    next += skipped + 1;
                }
                None => {
                    let changed = now.get(next).filter(|other| other.entry == item.entry);
                    next += usize::from(changed.is_some());
                    push(item.entry, Some(item), changed);
                }
            }
        }
        for more in &now[next..] {
            push(more.entry, None, Some(more));
        }
    }
}

/// Returns the beginning of a text on one line.
fn shortened(text: &str) -> String {
    aetheel_model::plain::short_line(text, MAX_TEXT_CHARS)
}

#[cfg(test)]
mod tests;
