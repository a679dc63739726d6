//! Drives one turn on its link, until the turn has exactly one outcome.
//!
//! `machine` has the state of the turn. It gets everything that happens as an input, also after a
//! restart of the gateway, and returns `effects`: news for the audience, questions to people,
//! requests to the link. This file waits for the inputs and carries out the effects. `stopping` has
//! the steps by which a turn is stopped, `judging` the running decisions of policies, and `finish`
//! the end of a turn. The time limits of the turn are in `clock`. Processes and the guest belong to
//! the link. `tests/dispatch` tests this module.

mod effects;
mod finish;
mod judging;
mod machine;
mod stopping;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::effects::{AskedQuestion, TurnEffect, TurnInput};
use self::judging::Judging;
use self::machine::{TurnMachine, TurnRules};
use super::link::LinkReport;
use super::links::{ContinuedTurn, Links, NewTurn, TurnSlot};
use super::stop::stopped;
use super::turn_result::{StopReason, TurnResult};
use super::{Audience, Blob, Host};
use aetheel_model::agent::descriptor::{Feature, LinkSharing};
use aetheel_model::agent::{AskDecision, AskKey, PromptPart, StartTurn, SteerOutcome};
use aetheel_model::event::Lane;
use aetheel_recording::Backend;
use aetheel_runtime::figures;

/// Maximum number of links that a turn tries if each is about to close.
const MAX_BEGIN_ATTEMPTS: u32 = 5;

/// A further message for a running turn.
#[derive(Debug)]
pub struct Steering {
    /// The parts of the message, already neutralised.
    pub parts: Vec<PromptPart>,
    /// Receives the outcome. Closed without one if the turn ends first.
    pub reply_tx: oneshot::Sender<SteerOutcome>,
}

/// A request to run a turn.
pub struct TurnRequest {
    /// The correlation id, which appears in logs, in the recording and in messages to users.
    pub id: String,
    /// The event's sequence number.
    pub event: u64,
    /// The lane of the event. The turn uses the session of this lane.
    pub lane: Lane,
    /// The generation that the turn starts on.
    pub backend: Arc<dyn Backend>,
    /// The command for the guest. The link assigns the keys in it.
    pub start: StartTurn,
    /// The contents of the files in `start`.
    pub blobs: Vec<Blob>,
    /// Set when the turn must stop.
    pub stop: watch::Receiver<Option<StopReason>>,
    /// Messages for the agent while it works. Used only for backends with the feature `steer`.
    pub steers: mpsc::UnboundedReceiver<Steering>,
    /// The position of the turn on a link, if it began before a restart of the gateway.
    pub continued: Option<ContinuedTurn>,
}

/// Runs a turn to its end.
///
/// Dropping the future ends the turn, and the agent if it serves no other turn.
pub async fn run(request: TurnRequest, links: &Links, audience: &mut dyn Audience) -> TurnResult {
    let TurnRequest { id, event, lane, backend, start, blobs, stop, steers, continued } = request;
    let started = Instant::now().into_std();
    let (decide, decisions) = mpsc::unbounded_channel();
    let continues = continued.is_some();
    let (slot, first) = match continued {
        Some(mut continued) => {
            let first = continued.slot.reports.recv().await;
            (continued.slot, first)
        }
        None => {
            let wanted = NewTurn { id: &id, event, lane: &lane, backend: &backend, blobs: &blobs };
            begin(links, wanted, start).await
        }
    };
    let (host, descriptor) = (links.host(), backend.descriptor());
    let rules = TurnRules {
        turn: slot.turn,
        limits: host.limits.clone(),
        max_turns: (!descriptor.has(Feature::MaxTurns)).then_some(host.max_turns),
        is_one_shot: descriptor.sharing == LinkSharing::Turn,
    };
    let now = Instant::now().into_std();
    let mut driver = Driver {
        host,
        audience,
        agent_version: host.agent_version(&descriptor.name),
        backend,
        slot,
        machine: TurnMachine::new(rules, started, now, continues),
        judging: Judging::new(decide),
        decisions,
        steers,
        stop,
    };
    driver.handle(TurnInput::Report(first));
    driver.follow().await;
    driver.finish()
}

/// Waits until the audience is ready for more of the turn. Returns a reason to stop if one arrives
/// first.
async fn pause(
    audience: &mut dyn Audience,
    stop: &mut watch::Receiver<Option<StopReason>>,
) -> Option<StopReason> {
    let ready = audience.until_durable()?;
    tokio::select! {
        biased;
        () = ready => None,
        Ok(reason) = stopped(stop) => Some(reason),
    }
}

/// Begins a turn on a link that accepts it. Also returns the link's first report.
async fn begin(
    links: &Links,
    wanted: NewTurn<'_>,
    start: StartTurn,
) -> (TurnSlot, Option<LinkReport>) {
    let mut tries = 0;
    loop {
        let mut slot = links.begin(&wanted, start.clone()).await;
        tries += 1;
        let first = slot.reports.recv().await;
        if !matches!(first, Some(LinkReport::Refused)) || tries >= MAX_BEGIN_ATTEMPTS {
            return (slot, first);
        }
    }
}

struct Driver<'a> {
    host: &'a Host,
    audience: &'a mut dyn Audience,
    backend: Arc<dyn Backend>,
    /// The agent's version when the turn began.
    agent_version: Option<String>,
    slot: TurnSlot,
    machine: TurnMachine,
    judging: Judging,
    decisions: mpsc::UnboundedReceiver<(AskKey, AskDecision)>,
    steers: mpsc::UnboundedReceiver<Steering>,
    stop: watch::Receiver<Option<StopReason>>,
}

impl Driver<'_> {
    /// Processes the inputs of the turn until it is over.
    async fn follow(&mut self) {
        // Without a pause, so that people never see less of the turn than before a restart.
        while self.machine.is_catching_up() {
            let report = self.slot.reports.recv().await;
            self.handle(TurnInput::Report(report));
        }
        loop {
            if self.machine.may_stop()
                && let Some(reason) = pause(self.audience, &mut self.stop).await
            {
                self.handle(TurnInput::Stop(reason));
            }
            if self.machine.is_over() {
                break;
            }
            let deadline = self.machine.deadline(Instant::now().into_std());
            let may_stop = self.machine.may_stop();
            let input = tokio::select! {
                report = self.slot.reports.recv() => TurnInput::Report(report),
                Some((ask, decision)) = self.decisions.recv() => TurnInput::Decision(ask, decision),
                ruling = self.judging.next() => ruling,
                Some(steering) = self.steers.recv() => TurnInput::Steering(steering),
                () = sleep_until(deadline.into()) => TurnInput::Deadline,
                Ok(reason) = stopped(&mut self.stop), if may_stop => TurnInput::Stop(reason),
            };
            self.handle(input);
        }
    }

    fn handle(&mut self, input: TurnInput) {
        let effects = self.machine.handle(Instant::now().into_std(), input);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<TurnEffect>) {
        for effect in effects {
            match effect {
                TurnEffect::Show(news) => {
                    self.audience.on(&news, self.machine.guard.transcript());
                }
                TurnEffect::Judge(question) => match self.audience.judge(&question.ask) {
                    Some(judgement) => self.judging.begin(question, judgement),
                    None => self.handle(TurnInput::Ruling(question, None)),
                },
                TurnEffect::Ask(AskedQuestion { ask, time }) => {
                    self.audience.ask(&ask, time, self.judging.answerer(ask.ask));
                }
                TurnEffect::Delegate(call) => {
                    self.audience.delegate(&call, self.judging.answerer(call.key));
                }
                TurnEffect::Request(request) => self.slot.link.send(request),
                TurnEffect::SetNativeId(native) => self.slot.set_native_id(&native),
                TurnEffect::CountFirstText(after) => {
                    figures::first_text(&self.backend.descriptor().name, after);
                }
            }
        }
    }
}
