//! Passes the agent's questions to policies or people, and the answers to the agent.

use std::time::Duration;

use super::Driver;
use super::judging::AskedQuestion;
use crate::AskCloseReason;
use crate::link::LinkRequest;
use crate::tools::DelegatedCall;
use aetheel_model::agent::{Ask, AskDecision, AskKey};
use aetheel_model::policy::PolicyRuling;

impl Driver<'_> {
    /// Lets policies decide about a question, or asks people.
    pub(super) fn ask(&mut self, question: AskedQuestion) {
        self.timer.open_ask(question.ask.ask, deadline_of(&question.ask));
        match self.audience.judge(&question.ask) {
            Some(judgement) => self.judging.begin(question, judgement),
            None => self.ask_people(&question),
        }
    }

    /// Lets the audience carry out a call of a host tool. The turn's time limits are paused
    /// meanwhile, because people may be asked.
    pub(super) fn delegate(&mut self, call: &DelegatedCall) {
        self.timer.open_ask(call.key, None);
        self.audience.delegate(call, self.judging.answerer(call.key));
    }

    fn ask_people(&mut self, question: &AskedQuestion) {
        let ask = &question.ask;
        let answerer = self.judging.answerer(ask.ask);
        match question.is_repeated {
            true => self.audience.ask_again(ask, answerer),
            false => self.audience.ask(ask, answerer),
        }
    }

    /// Records the decision of policies, and answers the agent or asks people.
    pub(super) fn on_ruling(&mut self, question: &AskedQuestion, ruling: Option<PolicyRuling>) {
        let Some(ruling) = ruling else { return self.ask_people(question) };
        // The answer follows, so that no recording has it without the decision.
        self.slot.link.send(LinkRequest::Ruled(ruling.clone()));
        match self.audience.ruled(&question.ask, &ruling, question.is_repeated) {
            Some(decision) => self.on_decision(question.ask.ask, decision),
            None => self.ask_people(question),
        }
    }

    pub(super) fn on_decision(&mut self, ask: AskKey, decision: AskDecision) {
        if self.timer.close_ask(ask) {
            self.slot.link.send(LinkRequest::Answer(ask, decision));
        }
    }

    /// Closes a question without a decision.
    pub(super) fn settle(&mut self, ask: AskKey, how: AskCloseReason) {
        if self.timer.close_ask(ask) {
            self.judging.forget(ask);
            self.audience.settled(ask, how);
        }
    }
}

/// Returns how long the agent waits for the answer to its question.
fn deadline_of(ask: &Ask) -> Option<Duration> {
    ask.deadline_ms.map(|ms| Duration::from_millis(ms.into()))
}
