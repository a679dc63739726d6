//! Drives one turn on its link: passes the agent's events to the audience and people's decisions to
//! the agent, until the turn has exactly one outcome.
//!
//! Owns the steps by which a turn is stopped. `asks` answers the agent's questions, with the
//! decisions of policies (`judging`) or of people. The time limits of the turn are in `clock`. Processes
//! and the guest belong to the link. `tests/dispatch` tests this module.

mod asks;
mod judging;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::judging::{AskedQuestion, Judging};
use super::clock::{Overdue, TurnTimer};
use super::guard::Guard;
use super::link::{LinkReport, LinkRequest};
use super::links::{ContinuedTurn, Links, NewTurn, TurnSlot};
use super::stop::{Cause, stopped};
use super::turn_result::{StopReason, Suspicion, TurnResult};
use super::{AskCloseReason, Audience, Blob, Host};
use aetheel_model::agent::descriptor::{Feature, LinkSharing};
use aetheel_model::agent::{
    AgentEventKind, AgentFailure, AskDecision, AskKey, PromptPart, StartTurn, SteerOutcome,
};
use aetheel_model::event::Lane;
use aetheel_model::fold::bounded;
use aetheel_model::plain::counted;
use aetheel_recording::conservation::Examination;
use aetheel_recording::{Backend, Ending, GuestFailure, TurnEvidence, TurnObservations};
use aetheel_runtime::figures;

/// Time, in addition to the grace period, that a link has to end a turn it was asked to give up.
const CUSTODY_TIMEOUT: Duration = Duration::from_secs(15);
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
        decide,
        agent_version: links.host().agent_version(&backend.descriptor().name),
        backend,
        slot: lease,
        guard: Guard::default(),
        timer: TurnTimer::new(started, links.host()),
        observed: TurnObservations::default(),
        trouble: TurnFailures::default(),
        examined: Examination::default(),
        cause: None,
        phase: TurnPhase::Running,
        judging: Judging::default(),
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

/// The steps by which a turn ends.
#[derive(Clone, Copy, Debug)]
enum TurnPhase {
    Running,
    /// The guest was asked to interrupt the turn. At this time the link is asked to give it up.
    Interrupted(Instant),
    /// The link was asked to give up the turn. At this time the driver stops waiting for it.
    GivenUp(Instant),
    /// The link reports nothing more, or the driver no longer waits for it.
    Over,
}

/// The failures of the guest and the agent during a turn.
#[derive(Debug, Default)]
struct TurnFailures {
    /// Whether the guest failed before the turn was stopped, while its agent kept running.
    guest_failed: bool,
    failure: Option<GuestFailure>,
    /// The reason to report if the turn ends without an outcome from the guest.
    agent: Option<AgentFailure>,
    /// The end of the stderr of the process that exited last.
    stderr: String,
}

struct Driver<'a> {
    host: &'a Host,
    audience: &'a mut dyn Audience,
    /// Sends decisions of people to the driver. Cloned for each question.
    decide: mpsc::UnboundedSender<(AskKey, AskDecision)>,
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
    /// The reason why the host stopped the turn, if it did.
    cause: Option<Cause>,
    phase: TurnPhase,
    judging: Judging,
}

impl Driver<'_> {
    /// Returns whether the turn is over: for a one-shot agent, when its link has ended; for others,
    /// when the guest has ended the turn.
    fn is_over(&self) -> bool {
        matches!(self.phase, TurnPhase::Over) || (self.guard.is_done() && !self.is_one_shot())
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
                if let TurnPhase::Interrupted(_) = self.phase {
                    self.give_up();
                }
            }
            Some(LinkReport::AgentFailed(failure)) => self.trouble.agent = Some(failure),
            Some(LinkReport::Stderr(tail)) => self.trouble.stderr = tail,
            Some(LinkReport::GuestFailed) => self.trouble.guest_failed = self.cause.is_none(),
            Some(LinkReport::Over(failure)) => {
                self.trouble.failure = failure;
                self.phase = TurnPhase::Over;
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
                self.phase = TurnPhase::Over;
            }
        }
    }

    /// Processes all reports from before a restart of the gateway.
    ///
    /// It does so without a pause, so that people never see less of the turn than before. Questions
    /// that are still open are asked at the end.
    async fn catch_up(&mut self) {
        let (mut asks, mut ruled, mut stopping) = (BTreeMap::new(), None, false);
        let (mut calls, mut at_ms) = (BTreeMap::new(), None);
        let caught_up = loop {
            match self.slot.reports.recv().await {
                Some(LinkReport::CaughtUp { spent, elapsed }) => break Some((spent, elapsed)),
                Some(LinkReport::Event(event)) => {
                    self.observed.text |= event.answer().is_some();
                    if let Some(event) = self.guard.event(event) {
                        self.audience.replay_event(&event, self.guard.transcript(), at_ms);
                    }
                }
                Some(LinkReport::Ask(ask)) => {
                    self.observed.asked = true;
                    match ruled.take() {
                        Some(ruling) => self.audience.past_ruling(&ask, &ruling),
                        None => self.audience.past_interruption(Some(&ask)),
                    }
                    asks.insert(ask.ask, ask);
                }
                Some(LinkReport::Replayed(at)) => at_ms = Some(at),
                Some(LinkReport::Ruled(ruling)) => ruled = Some(ruling),
                Some(LinkReport::Steered) => self.audience.past_interruption(None),
                Some(LinkReport::Delegated(call)) => {
                    self.audience.past_call(&call);
                    calls.insert(call.key, call);
                }
                Some(LinkReport::Withdrawn(ask)) => drop((asks.remove(&ask), calls.remove(&ask))),
                Some(LinkReport::Answered(ask, decision)) => {
                    calls.remove(&ask);
                    if let Some(ask) = asks.remove(&ask) {
                        self.audience.past_answer(&ask, &decision);
                    }
                }
                Some(LinkReport::Stopping) => stopping = true,
                // The turn is over, or its link refused it.
                report @ (None | Some(LinkReport::Over(_) | LinkReport::Refused)) => {
                    self.on_report(report);
                    break None;
                }
                report => self.on_report(report),
            }
        };
        if let Some((spent, elapsed)) = caught_up {
            self.timer.resume(spent, elapsed);
        }
        calls.values().for_each(|call| self.delegate(call));
        for ask in asks.into_values() {
            self.ask(AskedQuestion { ask, is_repeated: true });
        }
        if stopping && self.may_stop() {
            self.cause = Some(Cause::Asked(StopReason::User));
            self.phase = TurnPhase::Interrupted(Instant::now() + self.host.limits.stop_grace);
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

    /// Handles everything that is due: expired questions, the steps of stopping, and time limits.
    fn clock(&mut self) {
        let now = Instant::now();
        for ask in self.timer.expired_asks(now) {
            tracing::info!(ask, "the agent's question expired without an answer");
            self.slot.link.send(LinkRequest::Answer(ask, AskDecision::Dismissed));
            self.settle(ask, AskCloseReason::Expired);
        }
        match self.phase {
            TurnPhase::Interrupted(at) if at <= now => self.give_up(),
            TurnPhase::GivenUp(at) if at <= now => self.phase = TurnPhase::Over,
            _ => {}
        }
        match self.timer.overdue(now) {
            Some(Overdue::Budget) => self.stop_for(Cause::TimedOut),
            Some(Overdue::Silence) => self.stop_for(Cause::Silent),
            None => {}
        }
    }

    /// Returns when `clock` must be called next.
    fn deadline(&self) -> Instant {
        let phase = match self.phase {
            TurnPhase::Interrupted(at) | TurnPhase::GivenUp(at) => Some(at),
            TurnPhase::Running | TurnPhase::Over => None,
        };
        let times =
            [phase, self.timer.next_expiry(), self.timer.limit().filter(|_| self.may_stop())];
        // If nothing is due, only the link can wake the driver. Waking up now and then is harmless.
        times.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + CUSTODY_TIMEOUT)
    }

    /// Returns whether nothing has stopped or ended the turn yet.
    fn may_stop(&self) -> bool {
        self.cause.is_none() && !self.guard.is_done()
    }

    fn stop_for(&mut self, cause: Cause) {
        if self.may_stop() {
            self.stop(cause);
        }
    }

    /// Takes the first step of stopping: the guest asks its agent to stop.
    fn stop(&mut self, cause: Cause) {
        self.cause = Some(cause);
        self.phase = TurnPhase::Interrupted(Instant::now() + self.host.limits.stop_grace);
        self.slot.link.send(LinkRequest::Interrupt(self.slot.turn));
    }

    /// Takes the second step of stopping: the link ends the agent.
    fn give_up(&mut self) {
        if !self.is_one_shot() {
            tracing::warn!("the agent does not react to being interrupted; its link is given up");
        }
        self.phase =
            TurnPhase::GivenUp(Instant::now() + self.host.limits.stop_grace + CUSTODY_TIMEOUT);
        self.slot.link.send(LinkRequest::GiveUp(self.slot.turn));
    }

    fn finish(mut self) -> TurnResult {
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
        let cause = self.cause.filter(|cause| !guest_failed || matches!(cause, Cause::Asked(_)));
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
            output: observed.output,
            ending,
            text,
            session,
            usage,
            transcript,
            took,
            orphaned: observed.orphaned,
            silent,
            suspicion,
            is_usual: true,
            positions: self.examined.positions,
            slot: self.slot.into(),
        }
    }
}
