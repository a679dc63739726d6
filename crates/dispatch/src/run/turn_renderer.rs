//! Renders a recorded turn as people saw it, without secrets, from the actions of its guest (the
//! backend's component). Pure.
//!
//! The actions are processed as in a running turn. Notices of the host about sessions and files,
//! and the mention at the end, are left out.

use std::time::Duration;

use super::redact_stream::StreamRedactor;
use crate::outlet::{TurnAnswer, messages};
use aetheel_model::agent::{Action, TurnOutcome};
use aetheel_model::fold::Transcript;
use aetheel_model::redact::Redactor;
use aetheel_model::tool_summary::tool_summary;
use aetheel_recording::Ending;
use aetheel_recording::replay::ReplayedTurn;

/// A turn while its actions are replayed.
pub struct TurnRenderer<'a> {
    redactor: &'a Redactor,
    stream: StreamRedactor<'a>,
    shown: ReplayedTurn,
}

/// The facts about a turn's end that its actions do not contain.
#[derive(Clone, Copy, Debug)]
pub struct RecordedEnd<'a> {
    /// The correlation id of the turn.
    pub turn: &'a str,
    /// The label of the backend.
    pub backend: &'a str,
    /// The gateway's word for the ending, as in the recording. `None` if only the guest's outcome
    /// is known.
    pub ending: Option<&'a str>,
    /// The time from the start of the turn to its end.
    pub took: Duration,
    /// The time limit of the turn.
    pub timeout: Duration,
}

impl<'a> TurnRenderer<'a> {
    /// Creates an empty turn.
    #[must_use]
    pub fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, stream: StreamRedactor::new(redactor), shown: ReplayedTurn::default() }
    }

    /// Applies the next action of the guest. Actions that do not belong to the turn are ignored.
    pub fn action(&mut self, action: &Action) {
        match action {
            Action::Event(event) if self.shown.done.is_none() => {
                let Self { stream, shown, .. } = self;
                stream.pass(&event.kind, |event| shown.transcript.apply(event));
            }
            Action::Event(_) => {}
            other => self.shown.apply(other),
        }
    }

    /// Returns the turn so far, as people see it.
    #[must_use]
    pub fn shown(&self) -> &Transcript {
        &self.shown.transcript
    }

    /// Returns the answer that people received.
    #[must_use]
    pub fn answer(mut self, end: &RecordedEnd<'_>) -> TurnAnswer {
        let ReplayedTurn { mut transcript, session, done } = self.shown;
        self.stream.flush(|event| transcript.apply(event));
        let outcome = done.as_ref().map(|done| &done.outcome);
        let ending = match (end.ending, outcome) {
            (Some(how), outcome) => Ending::from_recording(how, outcome),
            (None, Some(TurnOutcome::Completed)) => Ending::Completed,
            (None, Some(TurnOutcome::Interrupted)) => Ending::Interrupted,
            (None, Some(TurnOutcome::Limit(limit))) => Ending::Limit(limit.clone()),
            (None, outcome) => Ending::from_recording("agent-failure", outcome),
        };
        let (said, usage) = done.map(|done| (done.text, done.usage)).unwrap_or_default();
        let answer = TurnAnswer {
            text: said.unwrap_or_else(|| transcript.text()),
            failure: messages::failure_message(
                &ending,
                None,
                end.timeout,
                transcript.retry(),
                false,
                end.turn,
            ),
            notices: transcript.notices().to_vec(),
            model: session.and_then(|session| session.model),
            usage: usage.or_else(|| transcript.usage()),
            took: end.took,
            tools: tool_summary(&transcript, self.redactor),
            ..TurnAnswer::from_backend(end.backend)
        };
        answer.cleaned(self.redactor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{
        AgentEvent, AgentEventKind, AgentFailure, FailureKind, TextEvent, TurnDone,
    };

    fn say(text: &str) -> Action {
        let text = TextEvent { part: 0, text: text.to_owned(), replace: false, parent: None };
        Action::Event(AgentEvent { session: 1, turn: 1, kind: AgentEventKind::Text(text) })
    }

    fn done(outcome: TurnOutcome) -> Action {
        let (text, usage) = (None, None);
        Action::TurnDone(TurnDone { session: 1, turn: 1, outcome, text, usage })
    }

    fn end(how: Option<&'static str>) -> RecordedEnd<'static> {
        let (took, timeout) = (Duration::from_secs(3), Duration::from_secs(120));
        RecordedEnd { turn: "ab12", backend: "Demo agent", ending: how, took, timeout }
    }

    #[test]
    fn a_rendered_turn_has_no_secrets_and_ends_with_the_turn() {
        let redactor = Redactor::new(&["sk-canary".to_owned().into()]);
        let mut told = TurnRenderer::new(&redactor);
        told.action(&say("the key is sk-"));
        assert_eq!(told.shown().text(), "the key is ", "it may be the beginning of a secret");
        told.action(&say("canary\u{202e}!"));
        assert_eq!(told.shown().text(), "the key is ***!");
        told.action(&done(TurnOutcome::Completed));
        told.action(&say(" and more"));
        let answer = told.answer(&end(Some("completed")));
        assert_eq!((answer.text.as_str(), answer.failure), ("the key is ***!", None));
    }

    #[test]
    fn a_failure_is_rendered_as_people_saw_it() {
        let redactor = Redactor::default();
        let failure = AgentFailure {
            kind: FailureKind::RateLimited,
            message: "secret of the agent".to_owned(),
            retry_after_ms: None,
        };
        let told = |how| {
            let mut told = TurnRenderer::new(&redactor);
            told.action(&say("half"));
            told.action(&done(TurnOutcome::Failed(failure.clone())));
            let answer = told.answer(&end(how));
            assert_eq!(answer.text, "half");
            answer.failure.expect("a failure")
        };
        let limited = "The agent's service is limiting requests. Please try again later.";
        assert_eq!(told(None), limited);
        assert_eq!(told(Some("agent-failure: whatever")), limited);
        assert_eq!(told(Some("interrupted")), "Stopped.");
        assert!(told(Some("timed-out")).starts_with("Query timed out after 120 s,"));
    }
}
