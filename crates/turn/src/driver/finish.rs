//! The end of a turn: its ending and its result.

use tokio::time::Instant;

use super::Driver;
use super::machine::{TurnFailures, TurnMachine};
use crate::stop::Cause;
use crate::turn_result::{Suspicion, TurnFindings, TurnResult};
use aetheel_model::fold::bounded;
use aetheel_model::plain::counted;
use aetheel_recording::{Ending, TurnEvidence, TurnObservations};

impl Driver<'_> {
    pub(super) fn finish(mut self) -> TurnResult {
        let now = Instant::now().into_std();
        let effects = self.machine.close(now);
        self.carry_out(effects);
        let TurnMachine { guard, timer, observed, failures, examined, stopping, .. } = self.machine;
        let excess = guard.excess().map(str::to_owned);
        let (transcript, session, done) = guard.into_parts();
        // A turn that exceeded a limit has no answer, because part of it was dropped.
        let done = done.filter(|_| excess.is_none());
        let (outcome, text, usage) =
            done.map_or((None, None, None), |done| (Some(done.outcome), done.text, done.usage));
        let TurnFailures { guest_failed, failure, agent, stderr } = failures;
        // A failure of the guest before the stop explains the ending better, unless a person
        // stopped the turn.
        let cause =
            stopping.cause.filter(|cause| !guest_failed || matches!(cause, Cause::Asked(_)));
        let stopped = cause.map(|cause| ending_of(cause, self.host.max_turns, excess));
        let text = text.map_or_else(|| transcript.text(), bounded);
        let usage = usage.or_else(|| transcript.usage());
        let observed = TurnObservations { output: self.slot.link.has_output(), ..observed };
        let seen = TurnEvidence {
            observed,
            transcript: &transcript,
            text: &text,
            usage: usage.as_ref(),
            lost: examined.lost.as_deref(),
        };
        let ending = Ending::of(outcome, failure, stopped, agent)
            .with_readable_message(&stderr, &self.backend.descriptor().stderr_noise)
            .unless_orphaned(observed.orphaned)
            .unless_unread(&seen);
        let silent = ending == Ending::Completed && seen.is_silent();
        let baselines = self.host.agents.baselines();
        let is_unusual = silent && baselines.always_answers(&self.backend.descriptor().name);
        let lost_part = examined.lost_part.filter(|_| ending == Ending::Completed);
        let suspicion =
            lost_part.map(Suspicion::LostPart).or_else(|| is_unusual.then_some(Suspicion::Silence));
        self.slot.ending = ending.to_string();
        TurnResult {
            link: self.slot.link.id.to_string(),
            recording: self.slot.link.recording.to_path_buf(),
            // It may have changed while the turn ran.
            generation: self.slot.link.generation(),
            agent_version: self.agent_version,
            ending,
            text,
            session,
            usage,
            transcript,
            took: timer.elapsed(now),
            findings: TurnFindings {
                output: observed.output,
                orphaned: observed.orphaned,
                silent,
                suspicion,
                is_usual: true,
                positions: examined.positions,
            },
            slot: self.slot.into(),
        }
    }
}

/// Returns the ending of a turn that the host stopped. `excess` is the limit of the guard that the
/// turn exceeded.
fn ending_of(cause: Cause, max_turns: u32, excess: Option<String>) -> Ending {
    match cause {
        Cause::Asked(reason) => reason.into(),
        Cause::TimedOut => Ending::TimedOut,
        Cause::Silent => Ending::Silent,
        Cause::Output => Ending::Limit("too much output".to_owned()),
        Cause::Rounds => Ending::Limit(format!("more than {}", counted(max_turns, "tool use"))),
        Cause::Excess => Ending::Limit(excess.unwrap_or_default()),
    }
}
