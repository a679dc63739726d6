//! Drives one turn on its link: passes the agent's events to the audience and people's decisions to
//! the agent, until the turn has exactly one outcome.
//!
//! `stopping` has the steps by which a turn is stopped, and `finish` its end. `asks` answers the
//! agent's questions, with the decisions of policies (`judging`) or of people. `catch_up` continues
//! a turn after a restart of the gateway. The time limits of the turn are in `clock`. Processes and
//! the guest belong to the link. `tests/dispatch` tests this module.

mod asks;
mod catch_up;
mod finish;
mod judging;
mod stopping;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::finish::TurnFailures;
use self::judging::{AskedQuestion, Judging};
use self::stopping::{Stopping, TurnPhase};
use super::clock::TurnTimer;
use super::guard::Guard;
use super::link::{LinkReport, LinkRequest};
use super::links::{ContinuedTurn, Links, NewTurn, TurnSlot};
use super::stop::{Cause, stopped};
use super::turn_result::{StopReason, TurnResult};
use super::{AskCloseReason, Audience, Blob, Host};
use aetheel_model::agent::descriptor::{Feature, LinkSharing};
use aetheel_model::agent::{AgentEventKind, AgentFailure, PromptPart, StartTurn, SteerOutcome};
use aetheel_model::event::Lane;
use aetheel_recording::conservation::Examination;
use aetheel_recording::{Backend, TurnObservations};
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
    let TurnRequest { id, event, lane, backend, start, blobs, mut stop, mut steers, continued } =
        request;
    let started = Instant::now();
    let (decide, mut decisions) = mpsc::unbounded_channel();
    let continues = continued.is_some();
    let (lease, first) = match continued {
        Some(continued) => (continued.slot, None),
        None => {
            let wanted = NewTurn { id: &id, event, lane: &lane, backend: &backend, blobs: &blobs };
            begin(links, wanted, start).await
        }
    };
    let mut driver = Driver {
        host: links.host(),
        audience,
        agent_version: links.host().agent_version(&backend.descriptor().name),
        backend,
        slot: lease,
        guard: Guard::default(),
        timer: TurnTimer::new(started, links.host()),
        observed: TurnObservations::default(),
        trouble: TurnFailures::default(),
        examined: Examination::default(),
        stopping: Stopping::default(),
        judging: Judging::new(decide),
    };
    if continues {
        driver.catch_up().await;
    } else {
        driver.on_report(first);
    }
    let mut steering = true;
    loop {
        if driver.may_stop()
            && let Some(reason) = pause(driver.audience, &mut stop).await
        {
            driver.stop(Cause::Asked(reason));
        }
        if driver.is_over() {
            break;
        }
        let deadline = driver.deadline();
        tokio::select! {
            report = driver.slot.reports.recv() => driver.on_report(report),
            Some((ask, decision)) = decisions.recv() => driver.on_decision(ask, decision),
            (question, ruling) = driver.judging.next() => driver.on_ruling(&question, ruling),
            steer = steers.recv(), if steering => match steer {
                Some(Steering { parts, reply_tx }) => {
                    driver.slot.link.send(LinkRequest::Steer(driver.slot.turn, parts, reply_tx));
                }
                None => steering = false,
            },
            () = sleep_until(deadline) => driver.clock(),
            Ok(reason) = stopped(&mut stop), if driver.may_stop() => {
                driver.stop(Cause::Asked(reason));
            }
        }
    }
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
        let mut lease = links.begin(&wanted, start.clone()).await;
        tries += 1;
        let first = lease.reports.recv().await;
        if !matches!(first, Some(LinkReport::Refused)) || tries >= MAX_BEGIN_ATTEMPTS {
            return (lease, first);
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
    guard: Guard,
    timer: TurnTimer,
    observed: TurnObservations,
    trouble: TurnFailures,
    /// The result of comparing the agent's output with the text that people saw.
    examined: Examination,
    stopping: Stopping,
    judging: Judging,
}

impl Driver<'_> {
    /// Returns whether the turn is over: for a one-shot agent, when its link has ended; for others,
    /// when the guest has ended the turn.
    fn is_over(&self) -> bool {
        matches!(self.stopping.phase, TurnPhase::Over)
            || (self.guard.is_done() && !self.is_one_shot())
    }

    fn is_one_shot(&self) -> bool {
        self.backend.descriptor().sharing == LinkSharing::Turn
    }

    fn on_report(&mut self, report: Option<LinkReport>) {
        match report {
            Some(LinkReport::Event(event)) => self.event(event),
            Some(LinkReport::Session(ready)) => match self.guard.session(ready) {
                Ok(native) => self.slot.set_native_id(native),
                Err(reason) => {
                    tracing::warn!(%reason, hint = "`aetheel backend check` finds such mistakes", "dropped a session id of the backend: the next turn begins a new session");
                }
            },
            Some(LinkReport::Ask(ask)) => {
                self.observed.asked = true;
                tracing::debug!(
                    ask = ask.ask,
                    title = ask.title.escape_debug().to_string(),
                    "the agent asks"
                );
                self.ask(AskedQuestion { ask, is_repeated: false });
            }
            Some(LinkReport::Delegated(call)) => self.delegate(&call),
            Some(LinkReport::Withdrawn(ask)) => self.settle(ask, AskCloseReason::Withdrawn),
            Some(LinkReport::Done(done)) => {
                let ends = self.guard.done(done);
                ends.iter().for_each(|end| self.audience.event(end, self.guard.transcript()));
            }
            Some(LinkReport::Examined(examined)) => self.examined = examined,
            Some(LinkReport::Active) => self.timer.active(),
            Some(LinkReport::ExitedWell) => self.observed.exited_well = !self.guard.is_done(),
            Some(LinkReport::Orphaned) => self.observed.orphaned = !self.guard.is_done(),
            Some(LinkReport::OutputLimit) => self.stop_for(Cause::Output),
            Some(LinkReport::InterruptIgnored) => {
                if self.stopping.is_interrupted() {
                    self.give_up();
                }
            }
            Some(LinkReport::AgentFailed(failure)) => self.trouble.agent = Some(failure),
            Some(LinkReport::Stderr(tail)) => self.trouble.stderr = tail,
            Some(LinkReport::GuestFailed) => {
                self.trouble.guest_failed = self.stopping.cause.is_none()
            }
            Some(LinkReport::Over(failure)) => {
                self.trouble.failure = failure;
                self.stopping.phase = TurnPhase::Over;
            }
            // Sent only before a continued turn has caught up.
            Some(
                LinkReport::Answered(..)
                | LinkReport::Ruled(_)
                | LinkReport::Replayed(_)
                | LinkReport::Steered
                | LinkReport::Stopping
                | LinkReport::CaughtUp { .. },
            ) => {}
            Some(LinkReport::Refused) | None => {
                let message = "the link to the agent broke before the turn began".to_owned();
                self.trouble.agent.get_or_insert(AgentFailure {
                    kind: aetheel_model::agent::FailureKind::Crashed,
                    message,
                    retry_after_ms: None,
                });
                self.stopping.phase = TurnPhase::Over;
            }
        }
    }

    fn event(&mut self, event: AgentEventKind) {
        self.timer.active();
        if event.answer().is_some() && !std::mem::replace(&mut self.observed.text, true) {
            figures::first_text(&self.backend.descriptor().name, self.timer.elapsed());
        }
        match self.guard.event(event) {
            Some(event) => self.audience.event(&event, self.guard.transcript()),
            None => self.stop_for(Cause::Excess),
        }
        self.timer.tool_runs(self.guard.transcript().open_tools().next().is_some());
        // Enforces the operator's limit for agents that have no limit of their own.
        if self.guard.rounds() > self.host.max_turns
            && !self.backend.descriptor().has(Feature::MaxTurns)
        {
            self.stop_for(Cause::Rounds);
        }
    }
}
