//! The end of a turn: its ending and its result.

use super::Driver;
use crate::AskCloseReason;
use crate::stop::Cause;
use crate::turn_result::{Suspicion, TurnFindings, TurnResult};
use aetheel_model::agent::AgentFailure;
use aetheel_model::fold::bounded;
use aetheel_model::plain::counted;
use aetheel_recording::{Ending, GuestFailure, TurnEvidence, TurnObservations};

/// The failures of the guest and the agent during a turn.
#[derive(Debug, Default)]
pub(super) struct TurnFailures {
    /// Whether the guest failed before the turn was stopped, while its agent kept running.
    pub(super) guest_failed: bool,
    pub(super) failure: Option<GuestFailure>,
    /// The reason to report if the turn ends without an outcome from the guest.
    pub(super) agent: Option<AgentFailure>,
    /// The end of the stderr of the process that exited last.
    pub(super) stderr: String,
}

impl Driver<'_> {
    pub(super) fn finish(mut self) -> TurnResult {
        for ask in self.timer.open_asks() {
            self.audience.settled(ask, AskCloseReason::TurnEnded);
        }
        for end in self.guard.close_tools() {
            self.audience.event(&end, self.guard.transcript());
        }
        let took = self.timer.elapsed();
        let excess = self.guard.excess().map(str::to_owned);
        let (transcript, session, done) = self.guard.into_parts();
        // A turn that exceeded a limit has no answer, because part of it was dropped.
        let done = done.filter(|_| excess.is_none());
        let (outcome, text, usage) =
            done.map_or((None, None, None), |done| (Some(done.outcome), done.text, done.usage));
        // A failure of the guest before the stop explains the ending better, unless a person
        // stopped the turn.
        let TurnFailures { guest_failed, failure, agent, stderr } = self.trouble;
        let cause =
            self.stopping.cause.filter(|cause| !guest_failed || matches!(cause, Cause::Asked(_)));
        let stopped = cause.map(|cause| match cause {
            Cause::Asked(reason) => reason.into(),
            Cause::TimedOut => Ending::TimedOut,
            Cause::Silent => Ending::Silent,
            Cause::Output => Ending::Limit("too much output".to_owned()),
            Cause::Rounds => {
                Ending::Limit(format!("more than {}", counted(self.host.max_turns, "tool use")))
            }
            Cause::Excess => Ending::Limit(excess.unwrap_or_default()),
        });
        let text = text.map_or_else(|| transcript.text(), bounded);
        let usage = usage.or_else(|| transcript.usage());
        let observed = TurnObservations { output: self.slot.link.has_output(), ..self.observed };
        let seen = TurnEvidence {
            observed,
            transcript: &transcript,
            text: &text,
            usage: usage.as_ref(),
            lost: self.examined.lost.as_deref(),
        };
        let ending = Ending::of(outcome, failure, stopped, agent)
            .with_readable_message(&stderr, &self.backend.descriptor().stderr_noise)
            .unless_orphaned(observed.orphaned)
            .unless_unread(&seen);
        let silent = ending == Ending::Completed && seen.is_silent();
        let baselines = self.host.agents.baselines();
        let is_unusual = silent && baselines.always_answers(&self.backend.descriptor().name);
        let lost_part = self.examined.lost_part.filter(|_| ending == Ending::Completed);
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
            took,
            findings: TurnFindings {
                output: observed.output,
                orphaned: observed.orphaned,
                silent,
                suspicion,
                is_usual: true,
                positions: self.examined.positions,
            },
            slot: self.slot.into(),
        }
    }
}
