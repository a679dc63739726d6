//! The observable facts of a link (one guest with the agent processes that it talks to), and the
//! differences between two replays of its recording. Pure.
//!
//! Internal details of a guest (timers, requests, thoughts, intermediate tool output) are ignored.
//! Only the started processes, the questions to people, the answers, and the ends of turns count.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::agent::{
    Action, AgentEvent, ArgumentValue, Ask, AskKind, Spawn, TurnDone, TurnKey, TurnOutcome,
};
use crate::turn::replay::ReplayedTurn;

/// The observable facts of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LinkFacts {
    processes: Vec<String>,
    questions: Vec<String>,
    turns: BTreeMap<TurnKey, ReplayedTurn>,
}

/// Information that is missing in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    /// Whether the recording ends before its link.
    pub(super) unfinished: bool,
    /// Whether parts of the answers were not recorded.
    pub(super) sparse: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DifferenceKind {
    Process,
    Question,
    Answer,
    End,
}

impl DifferenceKind {
    /// Returns the word for text output.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Question => "question",
            Self::Answer => "answer",
            Self::End => "end",
        }
    }
}

/// A difference between two replays. `None` on one side means that it has no such item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct FactDifference {
    pub(super) about: DifferenceKind,
    /// The guest's key of the turn.
    pub(super) turn: Option<TurnKey>,
    /// The recorded item.
    pub(super) before: Option<String>,
    /// The item of the new replay.
    pub(super) now: Option<String>,
}

impl LinkFacts {
    /// Collects the facts from the actions of a guest.
    pub(super) fn of<'a>(actions: impl IntoIterator<Item = &'a Action>) -> Self {
        let mut facts = Self::default();
        for action in actions {
            match action {
                Action::Spawn(spawn) => facts.processes.push(command(spawn)),
                Action::Ask(ask) => facts.questions.push(question(ask)),
                Action::Event(AgentEvent { turn, .. })
                | Action::TurnDone(TurnDone { turn, .. }) => {
                    facts.turns.entry(*turn).or_default().apply(action);
                }
                _ => {}
            }
        }
        facts
    }

    /// Returns the differences between these recorded facts and those of a new replay.
    pub(super) fn differences(&self, now: &Self, gaps: Gaps) -> Vec<FactDifference> {
        let mut found = list_differences(
            DifferenceKind::Process,
            &self.processes,
            &now.processes,
            gaps.unfinished,
        );
        found.extend(list_differences(
            DifferenceKind::Question,
            &self.questions,
            &now.questions,
            gaps.unfinished,
        ));
        let none = ReplayedTurn::default();
        let keys =
            self.turns.keys().chain(now.turns.keys().filter(|key| !self.turns.contains_key(key)));
        for key in keys {
            let before = self.turns.get(key).unwrap_or(&none);
            let now = now.turns.get(key).unwrap_or(&none);
            found.extend(turn_differences(*key, before, now, gaps));
        }
        found
    }

    /// Returns whether a turn that completed with an answer does not complete, or has no answer, in
    /// another replay.
    pub(super) fn is_lost_in(&self, now: &Self) -> bool {
        self.turns.iter().any(|(key, before)| {
            let now = now.turns.get(key);
            completed(before)
                && (!now.is_some_and(completed)
                    || (!before.text().trim().is_empty()
                        && now.is_none_or(|now| now.text().trim().is_empty())))
        })
    }
}

fn completed(turn: &ReplayedTurn) -> bool {
    turn.done.as_ref().is_some_and(|done| done.outcome == TurnOutcome::Completed)
}

fn end(turn: &ReplayedTurn) -> Option<String> {
    turn.done.as_ref().map(|done| match &done.outcome {
        TurnOutcome::Completed => "completed".to_owned(),
        TurnOutcome::Interrupted => "interrupted".to_owned(),
        TurnOutcome::Failed(failure) => format!("failed: {}", failure.message),
        TurnOutcome::Lost(failure) => format!("lost: {}", failure.message),
        TurnOutcome::Limit(limit) => format!("limit: {limit}"),
    })
}

fn turn_differences(
    key: TurnKey,
    before: &ReplayedTurn,
    now: &ReplayedTurn,
    gaps: Gaps,
) -> Vec<FactDifference> {
    let mut found = Vec::new();
    let mut part = |about, before: Option<String>, now: Option<String>| {
        if before != now {
            found.push(FactDifference { about, turn: Some(key), before, now });
        }
    };
    let (before_text, now_text) = (before.text(), now.text());
    // The last part of an unfinished answer may not have been written to the disk.
    let goes_on = gaps.unfinished && before.done.is_none();
    let has_final_text = before.done.as_ref().is_some_and(|done| done.text.is_some());
    if !((gaps.sparse && !has_final_text) || (goes_on && now_text.starts_with(&before_text))) {
        part(DifferenceKind::Answer, non_empty(before_text), non_empty(now_text));
    }
    if !goes_on {
        part(DifferenceKind::End, end(before), end(now));
    }
    found
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the differences between two lists of the same kind. Additional new items do not count if
/// the recording is unfinished.
fn list_differences(
    about: DifferenceKind,
    before: &[String],
    now: &[String],
    unfinished: bool,
) -> Vec<FactDifference> {
    let longest = if unfinished { before.len() } else { before.len().max(now.len()) };
    let pair = |at| (before.get(at).cloned(), now.get(at).cloned());
    (0..longest)
        .map(pair)
        .filter(|(before, now)| before != now)
        .map(|(before, now)| FactDifference { about, turn: None, before, now })
        .collect()
}

/// Formats a command line for people.
fn command(spawn: &Spawn) -> String {
    let argument = |value: &ArgumentValue| match value {
        ArgumentValue::Text(text) if !text.is_empty() && !text.contains(char::is_whitespace) => {
            text.clone()
        }
        ArgumentValue::Text(text) => format!("{text:?}"),
        ArgumentValue::File(name) => format!("<file {name}>"),
        ArgumentValue::Port => "<port>".to_owned(),
        ArgumentValue::Secret(name) => format!("<secret {name}>"),
        ArgumentValue::Inherit => "<inherited>".to_owned(),
        ArgumentValue::ToolServer(_) => "<address of the tools>".to_owned(),
    };
    let words = std::iter::once(spawn.program.clone()).chain(spawn.arguments.iter().map(argument));
    words.collect::<Vec<_>>().join(" ")
}

/// Formats a question with its options, without its id, which depends on the guest.
fn question(ask: &Ask) -> String {
    let subject = match &ask.kind {
        AskKind::Permission(tool) => serde_json::to_string(tool),
        AskKind::PlanApproval(plan) => Ok(plan.clone()),
        AskKind::Questions(questions) => serde_json::to_string(questions),
        AskKind::SignIn(text) => Ok(text.clone()),
    };
    let labels =
        ask.options.iter().map(|option| option.label.as_str()).chain(ask.always_label.as_deref());
    let labels = labels.collect::<Vec<_>>().join(" | ");
    format!("{} [{labels}] {}", ask.title, subject.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{AgentEventKind, AgentFailure, FailureKind, TextEvent};

    const WHOLE: Gaps = Gaps { unfinished: false, sparse: false };
    const UNFINISHED: Gaps = Gaps { unfinished: true, sparse: false };

    fn spawn(program: &str, arguments: &[&str]) -> Action {
        Action::Spawn(Spawn {
            proc: 1,
            program: program.to_owned(),
            arguments: arguments
                .iter()
                .map(|word| ArgumentValue::Text((*word).to_owned()))
                .collect(),
            environment: Vec::new(),
            stdin: Vec::new(),
            keep_open: false,
            listens: false,
            basic_auth: None,
            session: None,
            turn: None,
        })
    }

    fn says(text: &str) -> Action {
        let text = TextEvent { part: 1, text: text.to_owned(), replace: false, parent: None };
        Action::Event(AgentEvent { session: 1, turn: 1, kind: AgentEventKind::Text(text) })
    }

    fn done(outcome: TurnOutcome) -> Action {
        Action::TurnDone(TurnDone { session: 1, turn: 1, outcome, text: None, usage: None })
    }

    fn failed() -> Action {
        let message = "no output".to_owned();
        done(TurnOutcome::Failed(AgentFailure {
            kind: FailureKind::Other,
            message,
            retry_after_ms: None,
        }))
    }

    fn between(
        before: &[Action],
        now: &[Action],
        gaps: Gaps,
    ) -> Vec<(DifferenceKind, String, String)> {
        let has_final_text = |side: Option<String>| side.unwrap_or_default();
        let found = LinkFacts::of(before).differences(&LinkFacts::of(now), gaps);
        found
            .into_iter()
            .map(|it| (it.about, has_final_text(it.before), has_final_text(it.now)))
            .collect()
    }

    #[test]
    fn the_division_of_a_text_into_pieces_does_not_count() {
        let before = [spawn("a", &[]), says("one "), says("two"), done(TurnOutcome::Completed)];
        let now = [says("one two"), done(TurnOutcome::Completed), says("late"), spawn("a", &[])];
        assert_eq!(between(&before, &now, WHOLE), []);
    }

    #[test]
    fn other_commands_answers_and_ends_are_differences() {
        let before = [spawn("a", &["x y"]), says("one"), done(TurnOutcome::Completed)];
        let now = [spawn("a", &["x", "y"]), spawn("b", &[]), says("two"), failed()];
        assert_eq!(
            between(&before, &now, WHOLE),
            [
                (DifferenceKind::Process, "a \"x y\"".into(), "a x y".into()),
                (DifferenceKind::Process, String::new(), "b".into()),
                (DifferenceKind::Answer, "one".into(), "two".into()),
                (DifferenceKind::End, "completed".into(), "failed: no output".into()),
            ]
        );
    }

    #[test]
    fn an_unfinished_recording_allows_additions_but_no_other_differences() {
        let before = [spawn("a", &[]), says("one")];
        let more =
            [spawn("a", &[]), says("one two"), spawn("b", &[]), done(TurnOutcome::Completed)];
        assert_eq!(between(&before, &more, UNFINISHED), []);
        assert_eq!(between(&before, &more, WHOLE).len(), 3);
        let other = [spawn("a", &[]), says("two")];
        assert_eq!(between(&before, &other, UNFINISHED).len(), 1);
    }

    #[test]
    fn an_answer_that_was_not_recorded_is_not_compared() {
        let gaps = Gaps { sparse: true, ..WHOLE };
        let end = done(TurnOutcome::Completed);
        assert_eq!(between(std::slice::from_ref(&end), &[says("one"), end.clone()], gaps), []);
        assert_eq!(between(&[end], &[says("one"), failed()], gaps).len(), 1);
    }

    #[test]
    fn a_missing_answer_is_lost_and_a_different_one_is_not() {
        let lost = |before: &[Action], now: &[Action]| {
            LinkFacts::of(before).is_lost_in(&LinkFacts::of(now))
        };
        let answered = [says("one"), done(TurnOutcome::Completed)];
        assert!(lost(&answered, &[says("one")]));
        assert!(lost(&answered, &[says("one"), failed()]));
        assert!(lost(&answered, &[done(TurnOutcome::Completed)]));
        assert!(!lost(&answered, &[says("two"), done(TurnOutcome::Completed)]));
        assert!(!lost(&[failed()], &[]));
    }
}
