//! The state of one turn. Pure: inputs go in with their time, and effects come out for the driver to
//! carry out.
//!
//! After a restart of the gateway, the same machine first gets the reports from before the restart,
//! up to [`LinkReport::CaughtUp`]. Meanwhile it returns only news, marked as replayed: the previous
//! process carried out all other effects, or did not finish them. The machine then returns the
//! unfinished ones again: questions and calls without an answer, and the present step of stopping.
//! So every report, question and call is handled in one place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Steering;
use super::effects::{AskedQuestion, TurnEffect, TurnInput};
use crate::clock::TurnTimer;
use crate::guard::Guard;
use crate::link::{LinkReport, LinkRequest};
use crate::stop::Cause;
use crate::tools::DelegatedCall;
use crate::{AskCloseReason, NewsKind, PolicyVerdict, StopReason, TurnNews};
use aetheel_model::agent::{
    AgentEventKind, AgentFailure, Ask, AskDecision, AskKey, FailureKind, SessionReady, TurnRef,
};
use aetheel_model::limits::AgentLimits;
use aetheel_model::policy::PolicyRuling;
use aetheel_recording::conservation::Examination;
use aetheel_recording::{GuestFailure, TurnObservations};

/// The rules for one turn.
pub(super) struct TurnRules {
    pub(super) turn: TurnRef,
    pub(super) limits: AgentLimits,
    /// Maximum number of tool uses, or `None` if the agent has such a limit of its own.
    pub(super) max_turns: Option<u32>,
    /// Whether the agent serves only this turn.
    pub(super) is_one_shot: bool,
}

/// The steps by which a turn ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum TurnPhase {
    #[default]
    Running,
    /// The guest was asked to interrupt the turn. At this time the link is asked to give it up.
    Interrupted(Instant),
    /// The link was asked to give up the turn. At this time the driver stops waiting for it.
    GivenUp(Instant),
    /// The link reports nothing more, or the driver no longer waits for it.
    Over,
}

/// How far a turn is stopped.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    /// The reason why the host stopped the turn, if it did.
    pub(super) cause: Option<Cause>,
    pub(super) phase: TurnPhase,
}

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

/// The state of a turn that has not caught up yet after a restart of the gateway.
#[derive(Default)]
struct Replay {
    /// The time of the last event.
    at_ms: Option<i64>,
    /// The recorded decision of policies about the next question.
    ruling: Option<PolicyRuling>,
    /// Whether the guest was asked to interrupt the turn.
    was_interrupted: bool,
}

/// The state of one turn.
pub(super) struct TurnMachine {
    pub(super) rules: TurnRules,
    pub(super) guard: Guard,
    pub(super) timer: TurnTimer,
    pub(super) observed: TurnObservations,
    pub(super) failures: TurnFailures,
    /// The result of comparing the agent's output with the text that people saw.
    pub(super) examined: Examination,
    pub(super) stopping: Stopping,
    /// The questions and calls without an answer.
    questions: BTreeMap<AskKey, AskedQuestion>,
    calls: BTreeMap<AskKey, DelegatedCall>,
    /// How often the agent has used each key of a question.
    uses: BTreeMap<AskKey, u32>,
    replay: Option<Replay>,
    /// The effects of the present input.
    effects: Vec<TurnEffect>,
}

impl TurnMachine {
    /// Creates the state of a turn. If it continues after a restart of the gateway, the reports from
    /// before the restart come first.
    pub(super) fn new(rules: TurnRules, started: Instant, now: Instant, continues: bool) -> Self {
        Self {
            timer: TurnTimer::new(started, now, &rules.limits),
            rules,
            guard: Guard::default(),
            observed: TurnObservations::default(),
            failures: TurnFailures::default(),
            examined: Examination::default(),
            stopping: Stopping::default(),
            questions: BTreeMap::new(),
            calls: BTreeMap::new(),
            uses: BTreeMap::new(),
            replay: continues.then(Replay::default),
            effects: Vec::new(),
        }
    }

    /// Processes an input. The caller carries out the returned effects in order, before the next
    /// input.
    pub(super) fn handle(&mut self, now: Instant, input: TurnInput) -> Vec<TurnEffect> {
        match input {
            TurnInput::Report(report) => {
                self.on_report(now, report.unwrap_or(LinkReport::Refused));
            }
            TurnInput::Ruling(question, verdict) => self.on_ruling(now, question, verdict),
            TurnInput::Decision(ask, decision) => self.on_decision(now, ask, decision),
            TurnInput::Steering(Steering { parts, reply_tx }) => {
                self.act(TurnEffect::Request(LinkRequest::Steer(self.rules.turn, parts, reply_tx)));
            }
            TurnInput::Stop(reason) => self.stop_for(now, Cause::Asked(reason)),
            TurnInput::Deadline => self.on_deadline(now),
        }
        std::mem::take(&mut self.effects)
    }

    /// Closes everything that is open, because the turn is over.
    pub(super) fn close(&mut self, now: Instant) -> Vec<TurnEffect> {
        for ask in self.timer.open_asks() {
            self.settle(now, ask, AskCloseReason::TurnEnded);
        }
        let ends = self.guard.close_tools();
        ends.into_iter().for_each(|end| self.show(NewsKind::Event(end)));
        std::mem::take(&mut self.effects)
    }

    /// Returns whether reports from before a restart of the gateway are still to come.
    pub(super) fn is_catching_up(&self) -> bool {
        self.replay.is_some()
    }

    /// Returns whether the turn is over: for a one-shot agent, when its link has ended; for others,
    /// when the guest has ended the turn.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stopping.phase, TurnPhase::Over)
            || (self.guard.is_done() && !self.rules.is_one_shot)
    }

    fn on_report(&mut self, now: Instant, report: LinkReport) {
        match report {
            LinkReport::Event(event) => self.on_event(now, event),
            LinkReport::Session(ready) => self.on_session(ready),
            LinkReport::Ask(ask) => self.on_ask(now, ask),
            LinkReport::Delegated(call) => self.delegate(now, call),
            LinkReport::Withdrawn(ask) => self.settle(now, ask, AskCloseReason::Withdrawn),
            LinkReport::Done(done) => {
                let ends = self.guard.done(done);
                ends.into_iter().for_each(|end| self.show(NewsKind::Event(end)));
            }
            LinkReport::Examined(examined) => self.examined = examined,
            LinkReport::Active => self.timer.active(now),
            LinkReport::ExitedWell => self.observed.exited_well = !self.guard.is_done(),
            LinkReport::Orphaned => self.observed.orphaned = !self.guard.is_done(),
            LinkReport::OutputLimit => self.stop_for(now, Cause::Output),
            LinkReport::InterruptIgnored => {
                if matches!(self.stopping.phase, TurnPhase::Interrupted(_)) {
                    self.give_up(now);
                }
            }
            LinkReport::AgentFailed(failure) => self.failures.agent = Some(failure),
            LinkReport::Stderr(tail) => self.failures.stderr = tail,
            LinkReport::GuestFailed => self.failures.guest_failed = self.stopping.cause.is_none(),
            LinkReport::Over(failure) => {
                self.failures.failure = failure;
                self.end(now);
            }
            LinkReport::Refused => {
                let message = "the link to the agent broke before the turn began".to_owned();
                let kind = FailureKind::Crashed;
                let broken = AgentFailure { kind, message, retry_after_ms: None };
                self.failures.agent.get_or_insert(broken);
                self.end(now);
            }
            LinkReport::Answered(ask, decision) => self.on_decision(now, ask, decision),
            LinkReport::Steered => self.show(NewsKind::Steered),
            LinkReport::CaughtUp { spent, elapsed } => {
                self.timer.resume(now, spent, elapsed);
                self.caught_up(now);
            }
            LinkReport::Stopping => {
                self.stop_for(now, Cause::Asked(StopReason::User));
                self.in_replay(|replay| replay.was_interrupted = true);
            }
            LinkReport::Replayed(at_ms) => self.in_replay(|replay| replay.at_ms = Some(at_ms)),
            LinkReport::Ruled(ruling) => self.in_replay(|replay| replay.ruling = Some(ruling)),
        }
    }

    fn on_event(&mut self, now: Instant, event: AgentEventKind) {
        self.timer.active(now);
        if event.answer().is_some() && !std::mem::replace(&mut self.observed.text, true) {
            self.act(TurnEffect::CountFirstText(self.timer.elapsed(now)));
        }
        match self.guard.event(event) {
            Some(event) => self.show(NewsKind::Event(event)),
            None => self.stop_for(now, Cause::Excess),
        }
        self.timer.tool_runs(now, self.guard.transcript().open_tools().next().is_some());
        // Enforces the operator's limit for agents that have no limit of their own.
        if self.rules.max_turns.is_some_and(|most| self.guard.rounds() > most) {
            self.stop_for(now, Cause::Rounds);
        }
    }

    fn on_session(&mut self, ready: SessionReady) {
        match self.guard.session(ready) {
            Ok(native) => self.effects.push(TurnEffect::SetNativeId(native.to_owned())),
            Err(reason) => {
                tracing::warn!(%reason, hint = "`aetheel backend check` finds such mistakes", "dropped a session id of the backend: the next turn begins a new session");
            }
        }
    }

    fn on_ask(&mut self, now: Instant, ask: Ask) {
        self.observed.asked = true;
        let title = ask.title.escape_debug().to_string();
        tracing::debug!(ask = ask.ask, title, "the agent asks");
        let time = self.uses.entry(ask.ask).and_modify(|uses| *uses += 1).or_insert(1);
        let question = AskedQuestion { ask: Arc::new(ask), time: *time };
        self.judge(now, question.clone());
        if let Some(replay) = &mut self.replay {
            // The recording has the decision of policies. The answer follows.
            let ruling = replay.ruling.take();
            let verdict = ruling.map(|ruling| PolicyVerdict { ruling, answer: None });
            self.on_ruling(now, question, verdict);
        }
    }

    /// Lets policies decide about a question. The turn's time limits are paused until the answer,
    /// because people may be asked.
    fn judge(&mut self, now: Instant, question: AskedQuestion) {
        let deadline = question.ask.deadline_ms.map(|ms| Duration::from_millis(ms.into()));
        self.timer.open_ask(now, question.ask.ask, deadline);
        self.questions.insert(question.ask.ask, question.clone());
        self.act(TurnEffect::Judge(question));
    }

    fn delegate(&mut self, now: Instant, call: DelegatedCall) {
        self.timer.open_ask(now, call.key, None);
        self.calls.insert(call.key, call.clone());
        self.act(TurnEffect::Delegate(call));
    }

    /// Answers a question as policies decided, or asks people.
    fn on_ruling(&mut self, now: Instant, asked: AskedQuestion, verdict: Option<PolicyVerdict>) {
        let ask = asked.ask.ask;
        if self.questions.get(&ask).is_none_or(|question| question.time != asked.time) {
            // The question was withdrawn in the meantime.
            return;
        }
        let Some(PolicyVerdict { ruling, answer }) = verdict else {
            return self.act(TurnEffect::Ask(asked));
        };
        let is_final = ruling.is_final();
        // The answer follows, so that no recording has it without the decision.
        self.act(TurnEffect::Request(LinkRequest::Ruled(ruling.clone())));
        self.show(NewsKind::Ruled(Arc::clone(&asked.ask), ruling));
        match answer {
            Some(answer) => self.on_decision(now, ask, answer),
            None if is_final => {}
            None => self.act(TurnEffect::Ask(asked)),
        }
    }

    fn on_decision(&mut self, now: Instant, ask: AskKey, decision: AskDecision) {
        let question = self.questions.remove(&ask);
        self.calls.remove(&ask);
        if self.timer.close_ask(now, ask) {
            if let Some(question) = question {
                self.show(NewsKind::Answered(question.ask, decision.clone()));
            }
            self.act(TurnEffect::Request(LinkRequest::Answer(ask, decision)));
        }
    }

    /// Closes a question or a call without a decision.
    pub(super) fn settle(&mut self, now: Instant, ask: AskKey, how: AskCloseReason) {
        self.questions.remove(&ask);
        self.calls.remove(&ask);
        if self.timer.close_ask(now, ask) {
            self.show(NewsKind::Settled(ask, how));
        }
    }

    /// Ends a turn whose link reports nothing more.
    fn end(&mut self, now: Instant) {
        self.caught_up(now);
        self.stopping.phase = TurnPhase::Over;
    }

    /// Begins everything again that the previous process of the gateway did not finish.
    fn caught_up(&mut self, now: Instant) {
        let Some(replay) = self.replay.take() else { return };
        for call in std::mem::take(&mut self.calls).into_values() {
            self.delegate(now, call);
        }
        for question in std::mem::take(&mut self.questions).into_values() {
            self.judge(now, question);
        }
        match &mut self.stopping.phase {
            TurnPhase::Interrupted(until) if replay.was_interrupted || self.guard.is_done() => {
                *until = now + self.rules.limits.stop_grace;
            }
            TurnPhase::Interrupted(_) => self.interrupt(now),
            TurnPhase::GivenUp(_) => self.give_up(now),
            TurnPhase::Running | TurnPhase::Over => {}
        }
    }

    fn in_replay(&mut self, note: impl FnOnce(&mut Replay)) {
        if let Some(replay) = &mut self.replay {
            note(replay);
        }
    }

    /// Passes news to the audience.
    fn show(&mut self, kind: NewsKind) {
        let at_ms = self.replay.as_ref().and_then(|replay| replay.at_ms);
        let news = TurnNews { kind, replayed: self.replay.is_some(), at_ms };
        self.effects.push(TurnEffect::Show(news));
    }

    /// Adds an effect. Before the turn has caught up, the previous process of the gateway has
    /// carried it out, or [`Self::caught_up`] adds it again.
    pub(super) fn act(&mut self, effect: TurnEffect) {
        match effect {
            effect if self.replay.is_none() => self.effects.push(effect),
            TurnEffect::Ask(question) => self.show(NewsKind::Asked(question.ask)),
            TurnEffect::Delegate(call) => self.show(NewsKind::Called(call)),
            _ => {}
        }
    }
}
