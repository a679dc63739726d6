//! Recordings with disturbances: cut off, with garbage, with lines that are repeated, swapped,
//! missing or changed, and with commands at the wrong time.

use super::foreign::{about_unknown_keys, foreign_turn, queries, steer};
use super::{EXITS, longest_line};
use crate::damage::{self, GARBAGE};
use crate::seeded_rng::SeededRng;
use crate::trial::{GuestTrial, TrialStep, stdout_line, turn_at};
use aetheel_model::agent::{Descriptor, HostCommand, Input, SpawnFailed};
use aetheel_recording::comparison::{field_name, pointers};

/// Creates at most `limit` trials from a recording. The first is the unchanged recording.
pub(crate) fn of_recording(
    base: &[TrialStep],
    rng: &mut SeededRng,
    limit: usize,
) -> Vec<GuestTrial> {
    let mut trials = vec![GuestTrial::new("as recorded", base.to_vec())];
    let lines: Vec<usize> = (0..base.len()).filter(|at| base[*at].output().is_some()).collect();
    for exit in EXITS {
        if let Some(first) = lines.first() {
            trials.push(GuestTrial::exiting(
                format!("the agent exits before its first line ({exit:?})"),
                base[..*first].to_vec(),
                exit,
            ));
        }
    }
    // Only the first turn certainly starts an agent.
    if let Some(at) = base.iter().position(|step| step.start().is_some()) {
        let failed =
            SpawnFailed { proc: 1, message: "program not found: kit".into(), not_found: true };
        trials.push(GuestTrial::new(
            "the agent cannot be started",
            with_more(&base[..=at], at + 1, [TrialStep::own(Input::SpawnFailed(failed))]),
        ));
    }
    cuts(base, &lines, rng, &mut trials);
    garbage(base, &lines, rng, &mut trials);
    for at in rng.pick(lines.len(), 24).into_iter().map(|at| lines[at]) {
        let text = &base[at].output().map_or("", |line| &line.text);
        for (what, text) in damage::broken(text, 2, rng) {
            trials.push(GuestTrial::forged(
                format!("line {} with {what}", number(base, at)),
                with_text(base, at, &text, false),
            ));
        }
    }
    // The start of a turn is not moved, because a host starts a turn once, before all its other
    // inputs.
    let others: Vec<usize> = (0..base.len()).filter(|at| base[*at].start().is_none()).collect();
    for at in rng.pick(others.len(), 5).into_iter().map(|at| others[at]) {
        let name = format!("line {} ", number(base, at));
        trials.push(GuestTrial::new(
            &(name.clone() + "repeated"),
            with_more(base, at, [base[at].clone()]),
        ));
        if base.get(at + 1).is_some_and(|next| next.start().is_none()) {
            let mut swapped = base.to_vec();
            swapped.swap(at, at + 1);
            trials.push(GuestTrial::new(&(name.clone() + "and the next one swapped"), swapped));
        }
        let mut missing = base.to_vec();
        missing.remove(at);
        trials.push(GuestTrial::new(&(name + "missing"), missing));
    }
    commands(base, rng, &mut trials);
    for (at, exited) in
        base.iter().enumerate().filter(|(_, step)| matches!(step.input, Input::Exited(_)))
    {
        trials
            .push(GuestTrial::new("the agent exits twice", with_more(base, at, [exited.clone()])));
    }
    // Keeps the first trial, and a random selection of the others.
    let selected = rng.pick(trials.len() - 1, limit.saturating_sub(1));
    let mut all: Vec<Option<GuestTrial>> = trials.into_iter().map(Some).collect();
    std::iter::once(0)
        .chain(selected.into_iter().map(|at| at + 1))
        .filter_map(|at| all[at].take())
        .collect()
}

fn cuts(base: &[TrialStep], lines: &[usize], rng: &mut SeededRng, trials: &mut Vec<GuestTrial>) {
    for at in rng.pick(base.len(), 10) {
        trials.push(GuestTrial::exiting(
            format!("everything ends after line {}", number(base, at)),
            base[..=at].to_vec(),
            EXITS[rng.below(EXITS.len())],
        ));
    }
    for at in rng.pick(lines.len(), 4).into_iter().map(|at| lines[at]) {
        let Some(line) = base[at].output() else { continue };
        let end = line.text.floor_char_boundary(rng.below(line.text.len().max(1)));
        let name = format!("line {} cut after {end} bytes", number(base, at));
        trials.push(GuestTrial::new(&name, with_text(base, at, &line.text[..end], true)));
        trials.push(GuestTrial::new(
            &(name + " and the last one"),
            with_text(&base[..=at], at, &line.text[..end], false),
        ));
    }
}

fn garbage(base: &[TrialStep], lines: &[usize], rng: &mut SeededRng, trials: &mut Vec<GuestTrial>) {
    if lines.is_empty() {
        return;
    }
    for (what, text) in GARBAGE {
        let at = lines[rng.below(lines.len())];
        trials.push(GuestTrial::new(
            format!("{what} in place of line {}", number(base, at)),
            with_text(base, at, text, false),
        ));
        let proc = base[at].output().map_or(1, |line| line.proc);
        let more = TrialStep { line: base[at].line, ..TrialStep::own(stdout_line(proc, text)) };
        trials.push(GuestTrial::new(
            format!("{what} before line {}", number(base, at)),
            with_more(base, at, [more]),
        ));
    }
}

fn commands(base: &[TrialStep], rng: &mut SeededRng, trials: &mut Vec<GuestTrial>) {
    let first = base.iter().position(|step| step.start().is_some()).map_or(0, |at| at + 1);
    let places: Vec<usize> =
        rng.pick(base.len().saturating_sub(first), 4).into_iter().map(|at| at + first).collect();
    for at in places {
        let Some(turn) = turn_at(base, at) else { continue };
        let before = format!("before line {}", number(base, at));
        let interrupt = || TrialStep::foreign(Input::Command(HostCommand::Interrupt(turn)));
        let mut add = |what: &str, steps: Vec<TrialStep>| {
            trials.push(GuestTrial::new(format!("{what} {before}"), with_more(base, at, steps)))
        };
        add("interrupted", vec![interrupt()]);
        add("interrupted twice", vec![interrupt(), interrupt()]);
        add("a nonexistent turn interrupted", vec![foreign_turn()]);
        add("steered", vec![steer(turn)]);
        add("sent every query", queries(turn.session));
        add("sent inputs with unknown keys", about_unknown_keys());
        let mut cut = with_more(&base[..at], at, [interrupt()]);
        trials.push(GuestTrial::new(
            format!("interrupted {before}, and everything ends"),
            std::mem::take(&mut cut),
        ));
        let close = TrialStep::foreign(Input::Command(HostCommand::CloseSession(turn.session)));
        let shutdown = TrialStep::foreign(Input::Command(HostCommand::Shutdown));
        trials.push(GuestTrial::new(
            format!("shut down {before}"),
            with_more(base, at, [close, shutdown]),
        ));
    }
}

/// Extends the longest string in a recording to the maximum line length.
pub(crate) fn oversized(base: &[TrialStep], descriptor: &Descriptor) -> Option<GuestTrial> {
    let longest = longest_line(descriptor);
    let (at, line) = base
        .iter()
        .enumerate()
        .filter_map(|(at, step)| step.output().map(|line| (at, line)))
        .max_by_key(|(_, line)| line.text.len())?;
    let mut value: serde_json::Value = serde_json::from_str(&line.text).ok()?;
    let places = pointers(&value);
    let widest = places.into_iter().max_by_key(|place| {
        value.pointer(place).and_then(|there| there.as_str()).map_or(0, str::len)
    })?;
    let text = value.pointer_mut(&widest).filter(|there| there.is_string())?;
    *text = "z".repeat(longest.saturating_sub(line.text.len() + 16)).into();
    Some(GuestTrial::forged(
        format!(
            "line {} with {longest} bytes, most of them in `{}`",
            number(base, at),
            field_name(&widest)
        ),
        with_text(base, at, &value.to_string(), false),
    ))
}

/// Returns the line of the recording, or the position in the trial.
fn number(base: &[TrialStep], at: usize) -> usize {
    base.get(at).and_then(|step| step.line).unwrap_or(at + 1)
}

fn with_more(
    base: &[TrialStep],
    at: usize,
    more: impl IntoIterator<Item = TrialStep>,
) -> Vec<TrialStep> {
    let line = base.get(at).or(base.last()).and_then(|step| step.line);
    let more = more.into_iter().map(|step| TrialStep { line: step.line.or(line), ..step });
    let end = at.min(base.len());
    base[..end].iter().cloned().chain(more).chain(base[end..].iter().cloned()).collect()
}

fn with_text(base: &[TrialStep], at: usize, text: &str, truncated: bool) -> Vec<TrialStep> {
    let mut steps = base.to_vec();
    if let Input::Line(line) = &mut steps[at].input {
        line.text = text.to_owned();
        line.truncated = truncated;
    }
    steps
}
