//! A simulated host. It sends the inputs of a trial to a guest, tracks the state that a real host
//! tracks, and checks that the guest follows the contract. It starts no processes and never sleeps.
//! At the end it ends everything that is still open.
//!
//! [`host`] has the rules, [`open`] the open objects and their ends, [`launch`] the check of
//! command lines, and [`report`] the violations that were found.

mod host;
mod launch;
mod open;
mod report;

use self::host::SimulatedHost;
pub(super) use self::report::Violation;
use self::report::ViolationReport;
use super::finding::Rule;
use super::trial::{Endings, GuestTrial, TrialStep};
use aetheel_model::agent::{Descriptor, Exited, HostCommand, Input, TimedInput};
use aetheel_recording::replay::{Keys, ReplayResult};
use aetheel_recording::{Backend, Guest, GuestFailure, RecordingEntry};

/// A marker in every prompt of the kit. It must not appear in command lines.
pub(super) const PROMPT: &str = "kit-prompt-7c1f7e52";
/// Maximum number of rounds in which open objects are ended. Each round handles those that the
/// guest opened in the previous one.
const MAX_ROUNDS: usize = 64;

/// Runs a trial with `batch` inputs per call, and returns the guest's violations.
///
/// # Errors
/// Returns the failure if no guest can be opened.
pub(super) async fn run(
    backend: &dyn Backend,
    keys: Keys,
    trial: &GuestTrial,
    batch: usize,
) -> Result<Vec<Violation>, GuestFailure> {
    let mut simulator = Simulator {
        guest: backend.open().await?,
        keys,
        trial,
        host: SimulatedHost::of(backend.descriptor(), trial.forged),
        report: ViolationReport::default(),
        pending: Vec::new(),
        failed: false,
    };
    for step in &trial.steps {
        if let Some(start) = step.start() {
            simulator.flush().await;
            // A host starts no turn before the previous one of the session has ended.
            if simulator.host.turns.open_in(start.session) {
                break;
            }
        }
        simulator.send(step, batch).await;
    }
    simulator.flush().await;
    simulator.end_all().await;
    Ok(simulator.report.violations)
}

pub(super) struct ReplayCheck {
    /// The violations. `line` is the index of the entry with the last input.
    pub(super) violations: Vec<Violation>,
    /// Whether a turn is open although everything that the guest started has ended.
    pub(super) is_unended: bool,
}

/// Checks the actions of a replay, made with one input per call, by the rules of the contract.
pub(super) fn check_replay(
    descriptor: &Descriptor,
    entries: &[RecordingEntry],
    replayed: &ReplayResult,
) -> ReplayCheck {
    let mut host = SimulatedHost::of(descriptor, false);
    let (mut keys, mut report) = (Keys::of(entries), ViolationReport::default());
    for step in &replayed.steps {
        let input = entries.get(step.entry).and_then(RecordingEntry::input);
        if let Some(input) = input.and_then(|input| keys.translate(input)) {
            report.after(Some(step.entry), &input);
            host.send(&input);
        }
        for action in &step.actions {
            keys.record_used(action);
            host.act(action, &mut report);
        }
    }
    let has_ended = host.processes.last().is_some()
        && host.endings(&Endings::default()).is_empty()
        && host.timers.run_out().is_none();
    let is_unended = has_ended && replayed.failure.is_none() && host.turns.end_forgotten() > 0;
    ReplayCheck { violations: report.violations, is_unended }
}

struct Simulator<'a> {
    guest: Box<dyn Guest>,
    keys: Keys,
    trial: &'a GuestTrial,
    host: SimulatedHost<'a>,
    report: ViolationReport,
    pending: Vec<TimedInput>,
    failed: bool,
}

impl Simulator<'_> {
    async fn send(&mut self, step: &TrialStep, batch: usize) {
        if self.failed {
            return;
        }
        if self.pending.len() >= batch || (!step.foreign && self.keys.is_undecided(&step.input)) {
            self.flush().await;
        }
        let input = match step.foreign {
            true => step.input.clone(),
            false => match self.keys.translate(&step.input) {
                Some(input) => input,
                None => return,
            },
        };
        self.report.after(step.line, &input);
        self.host.send(&input);
        self.host.timers.now += 1.0;
        self.pending.push(TimedInput { at_ms: self.host.timers.now, input });
    }

    /// Sends an input that does not belong to the trial, in a call of its own.
    async fn send_own(&mut self, input: Input) {
        self.send(&TrialStep { line: self.report.line, ..TrialStep::foreign(input) }, 1).await;
    }

    async fn flush(&mut self) {
        if self.pending.is_empty() || self.failed {
            return;
        }
        match self.guest.handle(std::mem::take(&mut self.pending)).await {
            Ok(actions) => {
                for action in &actions {
                    self.keys.record_used(action);
                    self.host.act(action, &mut self.report);
                }
            }
            Err(failure) => {
                self.failed = true;
                let expected = "no failure, whatever the input";
                self.report.add(Rule::NeverFails, failure.to_string(), expected);
            }
        }
    }

    /// Ends everything that is still open, as a host does when its agents exit. Timers expire while
    /// a turn waits for them.
    async fn end_all(&mut self) {
        for _ in 0..MAX_ROUNDS {
            if self.failed {
                return;
            }
            let mut ends = self.host.endings(&self.trial.endings);
            if ends.is_empty() && self.host.turns.any_open() {
                ends.extend(self.host.timers.run_out());
            }
            if ends.is_empty() {
                break;
            }
            for input in ends {
                self.send_own(input).await;
            }
            self.flush().await;
        }
        self.check_end().await;
    }

    /// Checks that every turn has ended, and that no further one begins.
    async fn check_end(&mut self) {
        let last = self.host.processes.last();
        let got = match last {
            None => "no process and no turn-done",
            Some(_) => "no turn-done after all its processes had exited",
        };
        for _ in 0..self.host.turns.end_forgotten() {
            self.report.add(Rule::EndsOnce, got.to_owned(), "one turn-done per turn");
        }
        if let Some(proc) = last {
            let how = self.trial.endings.exit;
            self.send_own(Input::Exited(Exited { proc, how, stderr_tail: String::new() })).await;
        }
        self.send_own(Input::Command(HostCommand::Shutdown)).await;
        self.flush().await;
    }
}
