//! The stages of a judgement.

use std::collections::BTreeSet;

use super::scramble::{self, EntryReading, Scramble, positions_of, positions_of_prose};
use super::{
    LostRecording, MAX_FINDINGS, MendEffort, MendEvidence, MendJudgement, MendRule, MendedReply,
};
use crate::check;
use crate::golden::{CaseVerdict, judge as judge_case};
use crate::mutation::{Change, Holds, Recording, silent_loss};
use crate::unread::locate;
use aetheel_model::agent::{Action, AgentEventKind, TurnKey};
use aetheel_model::plain::shortened;
use aetheel_recording::case::Case;
use aetheel_recording::comparison::{
    ActionDifference, CompareError, Projection, compare, first_difference,
};
use aetheel_recording::replay::{Batches, ReplayResult, endings, lost_text, replay};
use aetheel_recording::reread::{RereadAnswer, reread_tape};
use aetheel_recording::{
    Backend, Ending, GuestFailure, ParsedRecording, RecordingEntry, RolloutPair,
};

/// Inputs per call in trials that need no exact line.
const FAST: Batches = Batches::Of(64);
const MAX_SHOWN: usize = 160;

pub(super) struct MendTrial<'a> {
    pub(super) pair: &'a RolloutPair,
    pub(super) evidence: &'a MendEvidence,
    pub(super) effort: MendEffort,
}

impl MendTrial<'_> {
    /// Runs the stages until one finds something.
    ///
    /// # Errors
    /// A guest cannot be opened.
    pub(super) async fn run(&self, judgement: &mut MendJudgement) -> Result<(), GuestFailure> {
        if self.pair.serving.descriptor() != self.pair.successor.descriptor() {
            judgement.add(
                MendRule::Descriptor,
                "it differs from that of the serving version; programs, flags, variables, features and version must stay",
            );
            return Ok(());
        }
        for lost in &self.evidence.lost {
            self.lost(lost, judgement).await?;
        }
        if judgement.findings.is_empty() {
            self.cases(judgement).await?;
        }
        if judgement.findings.is_empty() {
            self.mutants(judgement).await?;
        }
        if judgement.findings.is_empty() {
            self.unknown_lines(judgement).await?;
        }
        if judgement.findings.is_empty() {
            self.check(judgement).await?;
        }
        Ok(())
    }

    /// Reads a lost turn: as it is, with other words, and beside the serving version.
    async fn lost(
        &self,
        lost: &LostRecording,
        judgement: &mut MendJudgement,
    ) -> Result<(), GuestFailure> {
        let LostRecording { turn, case } = lost;
        let new = &*self.pair.successor;
        let reply = match reread_tape(new, case.tape.clone(), turn).await {
            Ok(RereadAnswer { text, .. }) if !text.trim().is_empty() => text,
            Ok(_) => {
                judgement.add(MendRule::Lost, format!("it finds no text in the turn `{turn}`"));
                return Ok(());
            }
            Err(error) => {
                judgement.add(MendRule::Lost, format!("`{turn}`: {error}"));
                return Ok(());
            }
        };
        let Some((key, _)) = case.tape.beginning_of(turn) else { return Ok(()) };
        let tape = self.until_end(&case.tape, turn, key).await?;
        let fault = match self.withheld(&tape, key).await? {
            None => self.invented(&tape.entries, key, &reply).await?,
            withheld => withheld,
        };
        if let Some(fault) = fault {
            judgement.add(MendRule::Words, format!("`{turn}`: {fault}"));
            return Ok(());
        }
        match compare(self.pair, &tape, key).await {
            Ok(differences) => {
                for harmful in differences.iter().filter(|difference| difference.harmful) {
                    judgement.add(
                        MendRule::Effects,
                        format!("`{turn}`, line {}: another {}", harmful.line, harmful.what),
                    );
                }
            }
            // The serving version crashed on the recording, so there is nothing to compare with.
            Err(CompareError::Serving(_)) => {}
            Err(error) => judgement.add(MendRule::Effects, format!("`{turn}`: {error}")),
        }
        judgement.replies.push(MendedReply { turn: turn.clone(), text: reply });
        Ok(())
    }

    /// Returns the recording up to the entry that ends a turn, or up to the place at which
    /// both versions have ended it.
    async fn until_end(
        &self,
        tape: &ParsedRecording,
        turn: &str,
        key: TurnKey,
    ) -> Result<ParsedRecording, GuestFailure> {
        let mut end = tape.entries.iter().position(|entry| entry.is_end_of(turn));
        if end.is_none() {
            for version in [&self.pair.serving, &self.pair.successor] {
                let replayed = replay(&**version, &tape.entries, Batches::Single).await?;
                let is_end =
                    |action: &Action| matches!(action, Action::TurnDone(done) if done.turn == key);
                let step = replayed.steps.iter().find(|step| step.actions.iter().any(is_end));
                end = end.max(step.map(|step| step.entry));
            }
        }
        let mut tape = tape.clone();
        let length = end.map_or(tape.entries.len(), |end| end + 1);
        tape.entries.truncate(length);
        tape.lines.truncate(length);
        Ok(tape)
    }

    /// Returns the reason why a part of the agent's answer is not shown, or `None` if all of it is:
    /// the text that the serving version lost, and the other texts at its positions.
    async fn withheld(
        &self,
        tape: &ParsedRecording,
        turn: TurnKey,
    ) -> Result<Option<String>, GuestFailure> {
        let entries = &tape.entries;
        let serving = replay(&*self.pair.serving, entries, Batches::Single).await?;
        let done = serving.turns.get(&turn).and_then(|turn| turn.done.as_ref());
        let read = replay(&*self.pair.successor, entries, Batches::Single).await?;
        let Some(shown) = read.turns.get(&turn) else { return Ok(None) };
        let shown = format!("{}\n{}", shown.text(), shown.transcript.text());
        if let Some(position) = lost_text(entries, &serving.steps, turn, done) {
            let (at, text) = locate(entries, &position, &serving);
            // A tool or another report may show a part of the line, or in another form.
            if reading(&read, at) != EntryReading::Other && !shown.contains(text.trim()) {
                return Ok(Some(format!("the text at `{position}` is not in its reply")));
            }
        }
        let starts =
            |entry: &RecordingEntry| entry.turn_start().is_some_and(|start| start.turn == turn);
        let first = entries.iter().position(starts).unwrap_or(0);
        let reads = |at: usize| reading(&read, first + at);
        Ok(scramble::not_shown(&entries[first..], &shown, reads)
            .map(|position| format!("a part of the text at `{position}` is not in its reply")))
    }

    /// Returns the reason why a reply is not the agent's, or `None` if it is.
    async fn invented(
        &self,
        entries: &[RecordingEntry],
        turn: TurnKey,
        reply: &str,
    ) -> Result<Option<String>, GuestFailure> {
        let positions = positions_of(entries, reply);
        if positions.is_empty() {
            return Ok(Some("its reply is not in the agent's output".to_owned()));
        }
        let scramble = Scramble::new(self.effort.seed);
        let changed = scramble.change(entries, &positions);
        let replayed = replay(&*self.pair.successor, &changed, FAST).await?;
        let read = replayed.turns.get(&turn).map(|turn| turn.text()).unwrap_or_default();
        let expected = scramble.apply(reply);
        Ok((read.trim() != expected.trim()).then(|| {
            format!(
                "its reply does not follow the agent's words: with other words it is `{}`, not `{}`",
                shortened(&read, MAX_SHOWN),
                shortened(&expected, MAX_SHOWN)
            )
        }))
    }

    /// Compares the actions for each case with the expected ones, and with those of the serving
    /// version for the case with other words.
    async fn cases(&self, judgement: &mut MendJudgement) -> Result<(), GuestFailure> {
        let RolloutPair { serving, successor } = self.pair;
        for case in &self.evidence.cases {
            judgement.cases += 1;
            let name = case.path.display();
            let before = replay(&**serving, &case.tape.entries, Batches::Single).await?;
            match judge_case(&**successor, case).await? {
                (CaseVerdict::Same, _) => {}
                (CaseVerdict::Unknown, actions) => {
                    let before: Vec<Action> = before.actions().cloned().collect();
                    if let Some(found) = first_difference(&before, &actions, Projection::Exact) {
                        judgement.add(MendRule::Cases, format!("{name}: {}", described(found)));
                    }
                }
                (CaseVerdict::Differs(difference), _) => {
                    let text = match difference.line {
                        Some(line) => format!("{name}:{line}: action {}", difference.action),
                        None => format!("{name}: action {}", difference.action),
                    };
                    let show = |value: &Option<String>| {
                        shortened(value.as_deref().unwrap_or("nothing"), MAX_SHOWN)
                    };
                    let (got, expected) = (show(&difference.got), show(&difference.expected));
                    judgement
                        .add(MendRule::Cases, format!("{text} is `{got}`, expected `{expected}`"));
                }
                (CaseVerdict::Failed(at, failure), _) => {
                    judgement.add(MendRule::Cases, format!("{}: {failure}", case.position(at)));
                }
                (CaseVerdict::Batching(how), _) => {
                    judgement.add(MendRule::Cases, format!("{name}: it differs with {how}"));
                }
            }
            if let Some(difference) = self.reads_other_words(&case.tape.entries).await? {
                judgement.add(MendRule::Words, format!("{name} with other words: {difference}"));
            }
            if judgement.findings.len() >= MAX_FINDINGS {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Compares both versions on entries with other words.
    async fn reads_other_words(
        &self,
        entries: &[RecordingEntry],
    ) -> Result<Option<String>, GuestFailure> {
        let scramble = Scramble::new(self.effort.seed);
        let changed = scramble.change(entries, &positions_of_prose(entries));
        let of = async |backend: &dyn Backend| -> Result<Vec<Action>, GuestFailure> {
            Ok(replay(backend, &changed, FAST).await?.actions().cloned().collect())
        };
        let (before, now) = (of(&*self.pair.serving).await?, of(&*self.pair.successor).await?);
        Ok(first_difference(&before, &now, Projection::Exact).map(described))
    }

    /// Changes keys of the recordings as a new version of the agent may do. In a case, nothing may be
    /// lost without a report, unless the serving version loses something too. In a lost turn, no
    /// answer may be lost without a report of the backend or the host.
    async fn mutants(&self, judgement: &mut MendJudgement) -> Result<(), GuestFailure> {
        let lost = self.evidence.lost.iter().map(|lost| (&lost.case, true));
        let all = self.evidence.cases.iter().map(|case| (case, false)).chain(lost);
        let recordings: Vec<_> = all
            .map(|(case, is_lost)| {
                let entries = case.tape.entries.iter();
                let entries = entries.filter_map(|entry| serde_json::to_value(entry).ok());
                (case, is_lost, Recording::new(entries.collect()))
            })
            .collect();
        // The same field is changed in one recording only, so that all fields have a turn.
        let mut known = BTreeSet::new();
        let mut changes = Vec::new();
        for (at, (_, _, recording)) in recordings.iter().enumerate() {
            for (position, holds, change) in recording.changes() {
                let is_text = holds == Holds::Text || change == Change::Split;
                if known.insert((position.clone(), change)) {
                    changes.push((!is_text, at, position.clone(), change));
                }
            }
        }
        changes.sort_by_key(|(is_other, ..)| *is_other);
        changes.truncate(self.effort.mutants);
        for (at, (case, is_lost, recording)) in recordings.iter().enumerate() {
            let (new, is_lost) = (&*self.pair.successor, *is_lost);
            let before = actions_json(new, &case.tape.entries).await?.0;
            let of_case = changes.iter().filter(|(_, of, ..)| *of == at);
            for (_, _, position, change) in of_case {
                let Some(mutant) = recording.mutant(position, *change) else { continue };
                let parsed: Result<Vec<RecordingEntry>, _> =
                    mutant.entries.into_iter().map(serde_json::from_value).collect();
                let Ok(entries) = parsed else { continue };
                judgement.mutants += 1;
                let loss = match is_lost {
                    true => unnoticed_loss(new, &before, &entries).await?,
                    // The host may notice it, but the operator learns less than before.
                    false => unreported_loss(new, &before, &entries).await?,
                };
                let Some(loss) = loss else { continue };
                let serving = &*self.pair.serving;
                if !is_lost && unreported_loss(serving, &before, &entries).await?.is_some() {
                    continue;
                }
                let loss = if is_lost { "an answer is missing" } else { loss.as_str() };
                judgement.add(
                    MendRule::Mutants,
                    format!("{}: {} {change}: {loss}", case.path.display(), position.name),
                );
                if judgement.findings.len() >= MAX_FINDINGS {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Runs the check of the kit. Findings that the serving version has too do not count.
    async fn check(&self, judgement: &mut MendJudgement) -> Result<(), GuestFailure> {
        let lost = self.evidence.lost.iter().map(|lost| lost.case.clone());
        let cases: Vec<Case> = self.evidence.cases.iter().cloned().chain(lost).collect();
        let findings = async |backend: &dyn Backend| -> Result<Vec<_>, GuestFailure> {
            let areas = check::check(backend, &cases).await?;
            Ok(areas.into_iter().flat_map(|area| area.findings).collect())
        };
        let found = findings(&*self.pair.successor).await?;
        if found.is_empty() {
            return Ok(());
        }
        let known = findings(&*self.pair.serving).await?;
        for finding in found {
            let is_known =
                known.iter().any(|known| known.rule == finding.rule && known.got == finding.got);
            if !is_known {
                let (got, expected) = (&finding.got, &finding.expected);
                judgement.add(
                    MendRule::Check,
                    format!("{}: {got}, expected: {expected}", finding.trial),
                );
            }
        }
        Ok(())
    }
}

/// Returns what people see of an entry.
fn reading(replayed: &ReplayResult, entry: usize) -> EntryReading {
    let here = replayed.steps.iter().filter(|step| step.entry == entry);
    let readings = here.flat_map(|step| &step.actions).map(|action| match action {
        Action::Event(event) => match &event.kind {
            AgentEventKind::Text(text) if text.parent.is_none() => EntryReading::Text,
            AgentEventKind::Usage(_) => EntryReading::Nothing,
            _ => EntryReading::Other,
        },
        Action::Ask(_) | Action::ToolRequest(_) => EntryReading::Other,
        _ => EntryReading::Nothing,
    });
    let mut strongest = EntryReading::Nothing;
    for reading in readings {
        match reading {
            EntryReading::Text => return EntryReading::Text,
            EntryReading::Other => strongest = EntryReading::Other,
            EntryReading::Nothing => {}
        }
    }
    strongest
}

/// Returns the actions of a replay as JSON, and whether a turn counts as unread.
pub(super) async fn actions_json(
    backend: &dyn Backend,
    entries: &[RecordingEntry],
) -> Result<(Vec<serde_json::Value>, bool), GuestFailure> {
    let replayed = replay(backend, entries, FAST).await?;
    let actions = replayed.actions().filter_map(|action| serde_json::to_value(action).ok());
    let is_unread = endings(entries, &replayed).values().any(Ending::is_lost);
    Ok((actions.collect(), is_unread || replayed.failure.is_some()))
}

/// Returns what a backend loses in changed entries without a report of its own.
async fn unreported_loss(
    backend: &dyn Backend,
    before: &[serde_json::Value],
    entries: &[RecordingEntry],
) -> Result<Option<String>, GuestFailure> {
    let (after, _) = actions_json(backend, entries).await?;
    let loss = silent_loss(before, &after);
    Ok(loss.map(|loss| shortened(&loss.to_string(), MAX_SHOWN)))
}

/// Returns the answer that a backend loses in changed entries, if neither it nor the host reports
/// that.
async fn unnoticed_loss(
    backend: &dyn Backend,
    before: &[serde_json::Value],
    entries: &[RecordingEntry],
) -> Result<Option<String>, GuestFailure> {
    let (after, is_unread) = actions_json(backend, entries).await?;
    let loss = silent_loss(before, &after).filter(|loss| loss.of_answer && !is_unread);
    Ok(loss.map(|loss| shortened(&loss.to_string(), MAX_SHOWN)))
}

/// Describes the first difference of the actions of two versions.
fn described(found: ActionDifference) -> String {
    let show = |value: Option<String>| shortened(value.as_deref().unwrap_or("nothing"), MAX_SHOWN);
    let (was, is) = (show(found.expected), show(found.got));
    format!("action {} was `{was}`, is `{is}`", found.number)
}
