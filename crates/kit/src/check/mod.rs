//! Checks whether a component follows the contract, one area after the other.

mod fields;
mod handover;

use serde::Serialize;

use super::finding::{self, CheckFinding, Rule};
use super::hostile;
use super::seeded_rng::SeededRng;
use super::simulator::{self, Violation};
use super::trial::{self, GuestTrial};
use aetheel_model::agent::Descriptor;
use aetheel_model::plain::shortened;
use aetheel_recording::case::Case;
use aetheel_recording::comparison::{Projection, first_difference};
use aetheel_recording::replay::{Batches, Keys, ReplayResult, replay};
use aetheel_recording::{Backend, EntryKind, FORMAT, GuestFailure, Header, ParsedRecording, brief};

/// The number of findings at which an area stops, because further ones probably have the same
/// cause.
const MAX_FINDINGS: usize = 20;
/// Number of inputs per call. If a trial finds something, it is repeated with one input per call.
const TRIAL_BATCH: usize = 64;
/// The total number of inputs of all trials. If there are many long recordings, each gets fewer
/// trials.
const INPUT_BUDGET: usize = 150_000;
const MAX_TRIALS: usize = 100;

/// An area (a group of related checks) and its results.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Area {
    /// The name of the area, as reports show it.
    pub name: &'static str,
    /// How many trials there were.
    pub trials: usize,
    /// A plural noun for the kind of trials, for people.
    pub of: &'static str,
    /// The reason why there were no trials. `None` if there were trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The violations that were found.
    pub findings: Vec<CheckFinding>,
    /// Weaknesses that were found. They do not make the check fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<CheckFinding>,
}

impl Area {
    fn new(name: &'static str, of: &'static str) -> Self {
        Self { name, trials: 0, of, why: None, findings: Vec::new(), notes: Vec::new() }
    }

    /// Returns whether the area should stop. A guest that is cut off costs a second each time, so
    /// it counts more.
    fn is_done(&self) -> bool {
        let cost =
            |finding: &CheckFinding| finding.times * if is_cut_off(&finding.got) { 20 } else { 1 };
        self.findings.len() >= MAX_FINDINGS || self.findings.iter().map(cost).sum::<usize>() >= 100
    }
}

/// Returns whether the guest was stopped at a limit.
fn is_cut_off(got: &str) -> bool {
    got.contains("cut off")
}

/// Runs all checks: hostile input, determinism, batching, handover of state if the guests of the
/// backend serve more than one turn, and renamed fields.
///
/// # Errors
/// Returns the failure if no guest can be opened.
pub async fn check(backend: &dyn Backend, cases: &[Case]) -> Result<Vec<Area>, GuestFailure> {
    // The descriptor can be tested even without recordings.
    let mut all = vec![descriptor_case(backend.descriptor())];
    all.extend_from_slice(cases);
    Ok(vec![
        hostile(backend, cases).await?,
        determinism(backend, &all).await?,
        batching(backend, &all).await?,
        handover::handover(backend, cases).await?,
        fields::fields(backend, cases).await?,
    ])
}

/// Creates a recording of a first prompt that is answered with all kinds of garbage.
fn descriptor_case(descriptor: &Descriptor) -> Case {
    let steps = hostile::without_recording(descriptor);
    let lines = (1..=steps.len()).collect();
    let header = Header {
        aetheel_recording: FORMAT,
        link: String::new(),
        backend: descriptor.name.clone(),
        backend_version: descriptor.version.clone(),
        generation: 0,
        digest: String::new(),
        agent_version: None,
        started: String::new(),
    };
    let tape = ParsedRecording { header, entries: trial::entries(&steps), lines };
    Case { path: "made from the descriptor".into(), tape, actions: None }
}

async fn hostile(backend: &dyn Backend, cases: &[Case]) -> Result<Area, GuestFailure> {
    let mut area = Area::new("hostile input", "trials");
    let mut rng = SeededRng::new(5);
    for trial in hostile::of_descriptor(backend.descriptor()) {
        run_trial(backend, &Keys::of(&trial::entries(&trial.steps)), &trial, None, &mut area)
            .await?;
    }
    let recorded: Vec<_> = cases.iter().map(|case| (case, trial::steps(&case.tape))).collect();
    let inputs: usize = recorded.iter().map(|(_, steps)| steps.len()).sum();
    let most = (INPUT_BUDGET / inputs.max(1)).clamp(12, MAX_TRIALS);
    for (number, (case, steps)) in recorded.iter().enumerate() {
        let keys = Keys::of(&case.tape.entries);
        let mut trials = hostile::of_recording(steps, &mut rng, most);
        if number == 0 {
            trials.extend(hostile::oversized(steps, backend.descriptor()));
        }
        for trial in trials {
            run_trial(backend, &keys, &trial, Some(case), &mut area).await?;
        }
    }
    Ok(area)
}

/// Runs a trial. If it finds something, repeats it with one input per call to find the responsible
/// input.
async fn run_trial(
    backend: &dyn Backend,
    keys: &Keys,
    trial: &GuestTrial,
    case: Option<&Case>,
    area: &mut Area,
) -> Result<(), GuestFailure> {
    if area.is_done() {
        return Ok(());
    }
    area.trials += 1;
    let mut violations = simulator::run(backend, keys.clone(), trial, TRIAL_BATCH).await?;
    if violations.iter().any(|violation| is_cut_off(&violation.got)) {
        // The time limit is in real time, and the machine may have been busy.
        violations = simulator::run(backend, keys.clone(), trial, TRIAL_BATCH).await?;
    }
    if !violations.is_empty() {
        let exact = simulator::run(backend, keys.clone(), trial, 1).await?;
        if !exact.is_empty() {
            violations = exact;
        }
    }
    for Violation { rule, line, input, got, expected } in violations {
        let finding = CheckFinding {
            rule,
            trial: trial.name.clone(),
            recording: case.map(|case| case.path.display().to_string()),
            line,
            input,
            got,
            expected,
            advice: rule.advice(),
            times: 1,
        };
        finding::add(&mut area.findings, finding);
    }
    Ok(())
}

async fn determinism(backend: &dyn Backend, cases: &[Case]) -> Result<Area, GuestFailure> {
    let mut area = Area::new("determinism", "recordings read twice");
    for case in cases {
        let first = replay(backend, &case.tape.entries, Batches::Single).await?;
        let second = replay(backend, &case.tape.entries, Batches::Single).await?;
        area.trials += 1;
        if let Some((at, failure)) = &first.failure {
            add(
                &mut area,
                Rule::NeverFails,
                "read unchanged",
                case,
                Some(*at),
                failure.to_string(),
                "no failure".into(),
            );
        }
        compare(&mut area, Rule::Determinism, "read a second time", case, &first, &second);
    }
    Ok(area)
}

async fn batching(backend: &dyn Backend, cases: &[Case]) -> Result<Area, GuestFailure> {
    let mut area = Area::new("batching", "recordings in other batches");
    for (number, case) in cases.iter().enumerate() {
        let single = replay(backend, &case.tape.entries, Batches::Single).await?;
        let seed = number as u64;
        let ways = [
            ("7 inputs per call", Batches::Of(7)),
            ("all inputs in one call", Batches::Whole),
            ("1 to 16 inputs per call", Batches::Seeded(seed)),
            ("1 to 16 inputs per call, in other batches", Batches::Seeded(!seed)),
        ];
        for (how, batches) in ways {
            area.trials += 1;
            let other = replay(backend, &case.tape.entries, batches).await?;
            compare(&mut area, Rule::Batching, how, case, &single, &other);
        }
    }
    Ok(area)
}

/// Compares two replays of a recording. `first` was made with one input per call.
fn compare(
    area: &mut Area,
    rule: Rule,
    trial: &str,
    case: &Case,
    first: &ReplayResult,
    second: &ReplayResult,
) {
    let actions: Vec<_> = first.actions().cloned().collect();
    let others: Vec<_> = second.actions().cloned().collect();
    if let Some(differ) = first_difference(&actions, &others, Projection::Exact) {
        let expected = differ.expected.unwrap_or_else(|| "no further action".to_owned());
        let got = differ.got.unwrap_or_else(|| "no further action".to_owned());
        let got = match differ.path {
            Some(path) => format!("action {}, `{path}`: {got}", differ.number),
            None => format!("action {}: {got}", differ.number),
        };
        add(area, rule, trial, case, first.entry_of(differ.number), got, expected);
    } else if first.failure.is_none()
        && let Some((at, failure)) = &second.failure
    {
        add(
            area,
            rule,
            trial,
            case,
            Some(*at),
            failure.to_string(),
            "no failure, as with one input per call".into(),
        );
    }
}

fn add(
    area: &mut Area,
    rule: Rule,
    trial: &str,
    case: &Case,
    entry: Option<usize>,
    got: String,
    expected: String,
) {
    let input = entry.and_then(|at| case.tape.entries.get(at)).map(|entry| match &entry.kind {
        EntryKind::In(input) => brief(input),
        other => shortened(&serde_json::to_string(other).unwrap_or_default(), 200),
    });
    let finding = CheckFinding {
        rule,
        trial: trial.to_owned(),
        recording: Some(case.path.display().to_string()),
        line: entry.and_then(|at| case.tape.lines.get(at)).copied(),
        input: input.unwrap_or_default(),
        got,
        expected,
        advice: rule.advice(),
        times: 1,
    };
    if !area.is_done() {
        finding::add(&mut area.findings, finding);
    }
}

#[cfg(test)]
mod tests;
