//! The usual output of an agent, learned for each version of it from turns that succeeded.
//!
//! The detector of lost answers (`recording::conservation`) ignores positions that contained text beside
//! readable answers, and a success without an answer is suspicious for a backend that always
//! answers. `docs/drift.md` states the rules. No I/O and no clock. Tested below and in
//! `tests/dispatch/baselines.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

/// Replaces the version of an agent if that is unknown. The version may differ in each turn, so no
/// positions are learned for it.
pub const UNKNOWN_VERSION: &str = "unknown";
/// Number of answered turns of a version after which no more positions are learned.
const LEARNING_TURNS: u32 = 50;
/// Number of turns in which a position must contain text beside the answer before it is ignored.
const CONFIRMATIONS: u32 = 3;
/// Maximum number of positions that are kept for a version.
const POSITION_LIMIT: usize = 100;
/// Maximum length of a position that is kept, in bytes.
const POSITION_LENGTH: usize = 400;
/// Number of answered turns of a backend after which a turn without an answer is suspicious.
const USUAL_TURNS: u32 = 20;
/// Maximum number of versions of an agent that are kept.
const VERSION_LIMIT: usize = 3;
/// Maximum length of the name of a version that is kept, in bytes.
const VERSION_LENGTH: usize = 80;

/// A version of a backend's agent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The name of the backend.
    pub backend: String,
    /// The agent's version, or [`UNKNOWN_VERSION`].
    pub agent_version: String,
}

/// The usual output of one version of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Turns that succeeded with an answer, up to a limit.
    pub answered: u32,
    /// Turns that succeeded without an answer.
    pub silent: u32,
    /// When the last of these turns ended.
    pub last: Timestamp,
    /// The positions of text in the output of answered turns.
    pub positions: BTreeMap<String, Position>,
    /// Turns without an answer since the last answer, and the component that ran them.
    pending: (String, u32),
    /// The positions of answers in the output of other kept versions of the agent.
    former: BTreeSet<String>,
}

/// The use of a position in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Text from there was shown in some turn.
    Shown,
    /// All text from there was part of an answer that people read. Contains the number of turns
    /// that had such text.
    Answer(u32),
    /// Text from there was never shown. Contains the number of turns that had such text.
    Beside(u32),
}

/// Positions in the output of a turn whose answer people could read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// Positions of text that reads like an answer and was not shown.
    pub beside: BTreeSet<String>,
    /// Positions of text that was shown, at least in part.
    pub shown: BTreeSet<String>,
    /// Positions of which all text was part of the answer.
    pub answers: BTreeSet<String>,
}

/// A turn that succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Success<'a> {
    /// SHA-256 of the component that ran it.
    pub component: &'a str,
    /// Whether there was text, a file or a question.
    pub answered: bool,
    /// The positions in its output, if they were examined.
    pub positions: Option<&'a Positions>,
    /// When it ended.
    pub at: Timestamp,
}

impl Baseline {
    /// Makes a baseline from saved values.
    #[must_use]
    pub fn saved(
        answered: u32,
        silent: u32,
        last: Timestamp,
        positions: BTreeMap<String, Position>,
    ) -> Self {
        Self { answered, silent, last, positions, ..Self::default() }
    }

    /// Returns whether positions are still learned.
    #[must_use]
    pub fn is_learning(&self) -> bool {
        self.answered < LEARNING_TURNS
    }

    /// Returns whether text at a position is known not to be part of an answer.
    #[must_use]
    pub fn ignores(&self, position: &str) -> bool {
        matches!(self.positions.get(position), Some(Position::Beside(turns)) if *turns >= CONFIRMATIONS)
    }

    /// Returns whether only answers appeared at a position in the turns so far.
    #[must_use]
    pub fn is_answer(&self, position: &str) -> bool {
        matches!(self.positions.get(position), Some(Position::Answer(_)))
    }

    /// Returns the positions of this version of the agent at which only answers appear.
    pub fn answers(&self) -> impl Iterator<Item = &str> {
        let is_answer = |position: &Position| matches!(position, Position::Answer(turns) if *turns >= CONFIRMATIONS);
        self.positions.iter().filter(move |(_, it)| is_answer(it)).map(|(name, _)| name.as_str())
    }

    /// Returns the positions of answers in the output of this version of the agent, and those of
    /// other versions that this one does not contradict.
    pub fn expected_answers(&self) -> impl Iterator<Item = &str> {
        let former = self.former.iter().map(String::as_str);
        self.answers().chain(former.filter(|name| !self.positions.contains_key(*name)))
    }

    /// Adds a turn. Returns whether something changed that must be saved.
    fn add(&mut self, turn: Success<'_>) -> bool {
        self.last = turn.at;
        let (component, count) = &mut self.pending;
        if !turn.answered {
            if component != turn.component {
                self.pending = (turn.component.to_owned(), 0);
            }
            self.pending.1 += 1;
            return false;
        }
        // Answers that were missing with another component may have been lost by it.
        let silent = if component == turn.component { *count } else { 0 };
        *count = 0;
        self.silent = self.silent.saturating_add(silent);
        let learning = self.is_learning();
        if learning {
            self.answered += 1;
            if let Some(positions) = turn.positions {
                self.learn(positions);
            }
        }
        learning || silent > 0
    }

    fn learn(&mut self, positions: &Positions) {
        let answers = positions.answers.iter().map(|name| (name, Position::Answer(1)));
        let shown = positions.shown.iter().map(|name| (name, Position::Shown));
        let beside = positions.beside.iter().map(|name| (name, Position::Beside(1)));
        for (name, new) in answers.chain(shown).chain(beside) {
            if let Some(position) = self.positions.get_mut(name) {
                *position = match (*position, new) {
                    (Position::Beside(turns), Position::Beside(_)) => Position::Beside(turns + 1),
                    (Position::Answer(turns), Position::Answer(_)) => Position::Answer(turns + 1),
                    _ => Position::Shown,
                };
            } else if self.positions.len() < POSITION_LIMIT && name.len() <= POSITION_LENGTH {
                self.positions.insert(name.clone(), new);
            }
        }
        if !self.is_learning() {
            self.positions.retain(|_, position| position.is_confirmed());
        }
    }
}

impl Position {
    fn is_confirmed(&self) -> bool {
        matches!(self, Self::Beside(turns) | Self::Answer(turns) if *turns >= CONFIRMATIONS)
    }
}

/// The baselines of all agents. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Baselines(Arc<Mutex<BTreeMap<Version, Baseline>>>);

impl Baselines {
    /// Adds baselines that were saved.
    pub fn restore(&self, saved: impl IntoIterator<Item = (Version, Baseline)>) {
        self.0.lock().extend(saved);
    }

    /// Returns the baseline for the text of a turn, or `None` if the version is not known.
    #[must_use]
    pub fn get(&self, backend: &str, agent_version: Option<&str>) -> Option<Baseline> {
        let version = version(backend, Some(agent_version?))?;
        let all = self.0.lock();
        let mut baseline = all.get(&version).cloned().unwrap_or_default();
        for (_, other) in all.iter().filter(|(of, _)| of.backend == backend && **of != version) {
            baseline.former.extend(other.answers().map(str::to_owned));
        }
        Some(baseline)
    }

    /// Returns the baseline of a version, or `None` if no turn of it was added.
    #[must_use]
    pub fn current(&self, version: &Version) -> Option<Baseline> {
        self.0.lock().get(version).cloned()
    }

    /// Adds a turn. Returns its version if the baseline must be saved.
    pub fn add(
        &self,
        backend: &str,
        agent_version: Option<&str>,
        turn: Success<'_>,
    ) -> Option<Version> {
        let version = version(backend, agent_version)?;
        let mut all = self.0.lock();
        let baseline = all.entry(version.clone()).or_default();
        let changed = baseline.add(turn).then_some(version);
        drop_oldest(&mut all, backend, |baseline| baseline.last);
        changed
    }

    /// Returns whether many turns of a backend had an answer and no turn lacked one.
    #[must_use]
    pub fn always_answers(&self, backend: &str) -> bool {
        let all = self.0.lock();
        let of_backend = all.iter().filter(|(version, _)| version.backend == backend);
        let (answered, silent) = of_backend.fold((0, 0), |(answered, silent), (_, baseline)| {
            (answered + baseline.answered, silent + baseline.silent)
        });
        answered >= USUAL_TURNS && silent == 0
    }
}

/// Returns `None` if the version's name is too long to be kept.
fn version(backend: &str, agent_version: Option<&str>) -> Option<Version> {
    let agent_version = agent_version.unwrap_or(UNKNOWN_VERSION);
    let (backend, agent_version) = (backend.to_owned(), agent_version.to_owned());
    (agent_version.len() <= VERSION_LENGTH).then_some(Version { backend, agent_version })
}

/// Removes all but the most recently used versions of a backend's agent. `last` returns when the
/// last turn of a version ended.
pub fn drop_oldest<T>(all: &mut BTreeMap<Version, T>, backend: &str, last: fn(&T) -> Timestamp) {
    let mut versions: Vec<(Timestamp, Version)> = all
        .iter()
        .filter(|(version, _)| version.backend == backend)
        .map(|(version, baseline)| (last(baseline), version.clone()))
        .collect();
    versions.sort_unstable();
    versions.truncate(versions.len().saturating_sub(VERSION_LIMIT));
    for (_, version) in versions {
        all.remove(&version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(component: &'static str, answered: bool) -> Success<'static> {
        Success { component, answered, positions: None, at: Timestamp::UNIX_EPOCH }
    }

    fn positions(beside: &[&str], shown: &[&str]) -> Positions {
        let set = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect();
        Positions { beside: set(beside), shown: set(shown), answers: BTreeSet::new() }
    }

    fn learned(baseline: &mut Baseline, positions: &Positions) {
        baseline.add(Success { positions: Some(positions), ..turn("a", true) });
    }

    #[test]
    fn a_missing_answer_is_unusual_after_many_answers_and_usual_once_answers_follow_it() {
        let all = Baselines::default();
        for _ in 0..USUAL_TURNS {
            assert!(!all.always_answers("b"));
            assert!(all.add("b", Some("1"), turn("a", true)).is_some());
        }
        assert!(all.always_answers("b") && !all.always_answers("c"));
        for _ in 0..3 {
            assert_eq!(all.add("b", Some("2"), turn("a", false)), None);
            assert!(all.always_answers("b"), "this version may have lost every answer");
        }
        all.add("b", Some("2"), turn("repaired", true));
        assert!(all.always_answers("b"), "the previous component lost them");
        all.add("b", Some("2"), turn("repaired", false));
        let version = all.add("b", Some("2"), turn("repaired", true)).expect("a change");
        let saved = all.current(&version).expect("a baseline");
        assert_eq!((saved.answered, saved.silent), (2, 1));
        assert!(!all.always_answers("b"));
    }

    #[test]
    fn a_position_is_ignored_once_three_readable_turns_had_it_beside_the_answer() {
        let mut baseline = Baseline::default();
        for _ in 0..2 {
            learned(&mut baseline, &positions(&["tip"], &["text"]));
            assert!(!baseline.ignores("tip"));
        }
        learned(&mut baseline, &positions(&["tip"], &[]));
        assert!(baseline.ignores("tip") && !baseline.ignores("text"));
        learned(&mut baseline, &positions(&[], &["tip"]));
        assert!(!baseline.ignores("tip"), "answers appear there, too");
        for _ in 0..CONFIRMATIONS {
            learned(&mut baseline, &positions(&["tip", "text"], &[]));
            assert!(!baseline.ignores("tip") && !baseline.ignores("text"));
        }
    }

    #[test]
    fn a_position_of_answers_is_known_after_three_turns_and_never_with_other_text() {
        let all = Baselines::default();
        let answer = Positions { answers: ["text".to_owned()].into(), ..Positions::default() };
        let add = |version, positions: &Positions| {
            let turn = Success { positions: Some(positions), ..turn("a", true) };
            all.add("b", Some(version), turn);
            all.get("b", Some(version)).expect("a baseline")
        };
        for _ in 0..2 {
            assert_eq!(add("1", &answer).answers().count(), 0);
        }
        assert_eq!(Vec::from_iter(add("1", &answer).answers()), ["text"]);
        // Another version expects answers there, until it contradicts.
        let expected =
            |version| all.get("b", Some(version)).expect("one").expected_answers().count();
        assert_eq!(
            (expected("2"), all.get("b", Some("2")).expect("one").answers().count()),
            (1, 0)
        );
        add("2", &positions(&["text"], &[]));
        assert_eq!(expected("2"), 0);
        assert_eq!(add("1", &positions(&[], &["text"])).answers().count(), 0);
        assert_eq!(add("1", &answer).answers().count(), 0);
    }

    #[test]
    fn positions_and_versions_are_bounded() {
        let mut baseline = Baseline::default();
        for turn in 0..LEARNING_TURNS {
            let many: Vec<String> = (0..9).map(|n| format!("{turn}.{n}")).collect();
            let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
            many.push("0");
            let long = "x".repeat(POSITION_LENGTH + 1);
            many.push(&long);
            learned(&mut baseline, &positions(&many, &[]));
            let known = &baseline.positions;
            assert!(known.len() <= POSITION_LIMIT && !known.contains_key(&long));
        }
        let confirmed = [("0".to_owned(), Position::Beside(LEARNING_TURNS))];
        assert_eq!(baseline.positions, confirmed.into(), "only confirmed positions stay");
        learned(&mut baseline, &positions(&["late", "late too"], &["0"]));
        assert_eq!(baseline.positions.len(), 1, "nothing more is learned");

        let all = Baselines::default();
        for (second, version) in (0..).zip(["1", "2", "3", "1", "4"]) {
            let at = Timestamp::from_second(second).expect("a time");
            all.add("b", Some(version), Success { at, ..turn("a", true) });
        }
        let answered = |version| all.get("b", Some(version)).map(|baseline| baseline.answered);
        assert_eq!(["1", "2", "3", "4"].map(answered), [Some(2), Some(0), Some(1), Some(1)]);
        assert_eq!(all.add("b", Some(&"x".repeat(1_000)), turn("a", true)), None);
        assert_eq!(all.get("b", None), None);
    }
}
