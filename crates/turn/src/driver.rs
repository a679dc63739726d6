//! Driving one turn on its link: what the agent does goes to the audience, people's decisions to
//! the agent, until there is one outcome.
//!
//! Owns the steps by which the turn is stopped; its times are the `clock`'s. Processes and the
//! guest are the link's. Pinned by `tests/dispatch`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::clock::{Clock, Overdue};
use super::conservation::Examination;
use super::ending::{Ending, Observed, Seen, StopReason, TurnResult};
use super::guard::Guard;
use super::link::{LinkRequest, Report};
use super::links::{ContinuedTurn, Lease, Links, Wanted};
use super::{Answerer, Audience, Backend, Blob, GuestFailure, Host, Settled};
use aetheel_model::agent::descriptor::{Feature, Sharing};
use aetheel_model::agent::{AskKey, Decision, EventKind, Failure, Part, StartTurn, SteerOutcome};
use aetheel_model::event::Lane;
use aetheel_model::figures;

/// Time a link has, beyond the grace, to end what it was told to give up.
const CUSTODY_TIMEOUT: Duration = Duration::from_secs(15);
/// Links a turn tries that are about to close at that very moment.
const TRIES: u32 = 5;

/// A further message for a running turn.
#[derive(Debug)]
pub struct Steering {
    /// The message, neutralised.
    pub parts: Vec<Part>,
    /// Gets its outcome; closed when the turn ended first.
    pub reply_tx: oneshot::Sender<SteerOutcome>,
}

/// A turn to be run.
pub struct TurnRequest {
    /// Correlation id: in logs, in the recording and in messages to users.
    pub id: String,
    /// The event's sequence number.
    pub event: u64,
    /// Where the event waited: whose session it is.
    pub lane: Lane,
    /// The generation it runs on, to its end.
    pub backend: Arc<dyn Backend>,
    /// The guest's command; the keys in it are the link's affair.
    pub start: StartTurn,
    /// The bytes of the files in it.
    pub blobs: Vec<Blob>,
    /// Becomes a value when the turn shall stop.
    pub stop: watch::Receiver<Option<StopReason>>,
    /// Messages for the agent while it works; only for backends with the feature `steer`.
    pub steers: mpsc::UnboundedReceiver<Steering>,
    /// Its place on a link, where an earlier life of the gateway began it.
    pub continued: Option<ContinuedTurn>,
}

/// Runs a turn. Dropping the future ends it, and with it an agent that serves nobody else.
pub async fn run(request: TurnRequest, links: &Links, audience: &mut dyn Audience) -> TurnResult {
    let TurnRequest { id, event, lane, backend, start, blobs, mut stop, mut steers, continued } =
        request;
    let started = Instant::now();
    let (decide, mut decisions) = mpsc::unbounded_channel();
    let continues = continued.is_some();
    let (lease, first) = match continued {
        Some(continued) => (continued.lease, None),
        None => {
            let wanted = Wanted { id: &id, event, lane: &lane, backend: &backend, blobs: &blobs };
            begin(links, wanted, start).await
        }
    };
    let mut driver = Driver {
        host: links.host(),
        audience,
        decide,
        agent_version: links.host().agent_version(&backend.descriptor().name),
        backend,
        lease,
        guard: Guard::default(),
        clock: Clock::new(started, links.host()),
        observed: Observed::default(),
        trouble: Trouble::default(),
        examined: Examination::default(),
        cause: None,
        phase: Phase::Running,
    };
    if continues {
        driver.catch_up().await;
    } else {
        driver.received(first);
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
            report = driver.lease.reports.recv() => driver.received(report),
            Some((ask, decision)) = decisions.recv() => driver.decided(ask, decision),
            steer = steers.recv(), if steering => match steer {
                Some(Steering { parts, reply_tx }) => {
                    driver.lease.link.ask(LinkRequest::Steer(driver.lease.turn, parts, reply_tx));
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

/// Waits until the audience is ready for more of the turn. Returns the reason to stop it if there is
/// one before.
async fn pause(
    audience: &mut dyn Audience,
    stop: &mut watch::Receiver<Option<StopReason>>,
) -> Option<StopReason> {
    let ready = audience.before_more()?;
    tokio::select! {
        biased;
        () = ready => None,
        Ok(reason) = stopped(stop) => Some(reason),
    }
}

/// Begins a turn on a link that takes it; returns also the first report.
async fn begin(links: &Links, wanted: Wanted<'_>, start: StartTurn) -> (Lease, Option<Report>) {
    let mut tries = 0;
    loop {
        let mut lease = links.begin(&wanted, start.clone()).await;
        tries += 1;
        let first = lease.reports.recv().await;
        if !matches!(first, Some(Report::Refused)) || tries >= TRIES {
            return (lease, first);
        }
    }
}

/// Why the host stopped the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Asked(StopReason),
    TimedOut,
    Silent,
    Output,
    Rounds,
    /// It has more events or tools than a turn may have.
    Excess,
}

/// How far the turn is on its way out.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    /// The guest was told to interrupt; when the link is told to give up.
    Interrupted(Instant),
    /// The link was told to give up; when it is not waited for any longer.
    GivenUp(Instant),
    /// The link reports nothing more, or is not waited for.
    Over,
}

/// Everything that went wrong on the link.
#[derive(Debug, Default)]
struct Trouble {
    /// The guest failed before anything stopped the turn, and its agent runs on.
    guest_failed: bool,
    failure: Option<GuestFailure>,
    /// The reason to give when the turn ends without the guest ending it.
    agent: Option<Failure>,
    /// The end of the stderr of the process that exited last.
    stderr: String,
}

struct Driver<'a> {
    host: &'a Host,
    audience: &'a mut dyn Audience,
    /// Where decisions of people come from.
    decide: mpsc::UnboundedSender<(AskKey, Decision)>,
    backend: Arc<dyn Backend>,
    /// As known at the start.
    agent_version: Option<String>,
    lease: Lease,
    guard: Guard,
    clock: Clock,
    observed: Observed,
    trouble: Trouble,
    /// The agent's output compared with the text that people saw.
    examined: Examination,
    /// Why the host stopped the turn, where it did.
    cause: Option<Cause>,
    phase: Phase,
}

impl Driver<'_> {
    /// A one-shot turn is over when nothing of its agent is left; others when the guest says so.
    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over) || (self.guard.is_done() && !self.is_one_shot())
    }

    fn is_one_shot(&self) -> bool {
        self.backend.descriptor().sharing == Sharing::Turn
    }

    fn received(&mut self, report: Option<Report>) {
        match report {
            Some(Report::Event(event)) => self.event(event),
            Some(Report::Session(ready)) => match self.guard.session(ready) {
                Ok(native) => self.lease.learned(native),
                Err(reason) => tracing::debug!(%reason, "dropped a session id of the backend"),
            },
            Some(Report::Ask(ask)) => {
                self.observed.asked = true;
                self.clock.ask(ask.ask);
                tracing::debug!(
                    ask = ask.ask,
                    title = ask.title.escape_debug().to_string(),
                    "the agent asks"
                );
                self.audience.ask(&ask, Answerer::new(ask.ask, self.decide.clone()));
            }
            Some(Report::Withdrawn(ask)) => self.settle(ask, Settled::Withdrawn),
            Some(Report::Done(done)) => {
                let ends = self.guard.done(done);
                ends.iter().for_each(|end| self.audience.event(end, self.guard.transcript()));
            }
            Some(Report::Examined(examined)) => self.examined = examined,
            Some(Report::Active) => self.clock.active(),
            Some(Report::ExitedWell) => self.observed.exited_well = !self.guard.is_done(),
            Some(Report::Orphaned) => self.observed.orphaned = !self.guard.is_done(),
            Some(Report::OutputLimit) => self.stop_for(Cause::Output),
            Some(Report::InterruptIgnored) => {
                if let Phase::Interrupted(_) = self.phase {
                    self.give_up();
                }
            }
            Some(Report::Trouble(failure)) => self.trouble.agent = Some(failure),
            Some(Report::Stderr(tail)) => self.trouble.stderr = tail,
            Some(Report::GuestFailed) => self.trouble.guest_failed = self.cause.is_none(),
            Some(Report::Over(failure)) => {
                self.trouble.failure = failure;
                self.phase = Phase::Over;
            }
            // Only of a turn that catches up.
            Some(
                Report::Answered(..) | Report::Steered | Report::Stopping | Report::CaughtUp { .. },
            ) => {}
            Some(Report::Refused) | None => {
                let message = "the link to the agent broke before the turn began".to_owned();
                self.trouble.agent.get_or_insert(Failure {
                    kind: aetheel_model::agent::FailureKind::Crashed,
                    message,
                    retry_after_ms: None,
                });
                self.phase = Phase::Over;
            }
        }
    }

    /// Takes in what happened in an earlier life of the gateway: everything at once, without a
    /// pause, so that nobody sees less of the turn than there was. Questions that are still open are
    /// asked at the end.
    async fn catch_up(&mut self) {
        let (mut asks, mut stopping) = (BTreeMap::new(), false);
        let caught_up = loop {
            match self.lease.reports.recv().await {
                Some(Report::CaughtUp { spent, elapsed }) => break Some((spent, elapsed)),
                Some(Report::Event(event)) => {
                    self.observed.text |=
                        matches!(&event, EventKind::Text(text) if text.parent.is_none());
                    if let Some(event) = self.guard.event(event) {
                        self.audience.relive(&event, self.guard.transcript());
                    }
                }
                Some(Report::Ask(ask)) => {
                    self.observed.asked = true;
                    self.audience.interrupted_before(Some(&ask));
                    asks.insert(ask.ask, ask);
                }
                Some(Report::Steered) => self.audience.interrupted_before(None),
                Some(Report::Withdrawn(ask)) => drop(asks.remove(&ask)),
                Some(Report::Answered(ask, decision)) => {
                    if let Some(ask) = asks.remove(&ask) {
                        self.audience.answered_before(&ask, &decision);
                    }
                }
                Some(Report::Stopping) => stopping = true,
                // It goes on without what it was waiting for, or it is over.
                report @ (None | Some(Report::Over(_) | Report::Refused)) => {
                    self.received(report);
                    break None;
                }
                report => self.received(report),
            }
        };
        if let Some((spent, elapsed)) = caught_up {
            self.clock.resume(spent, elapsed);
        }
        for ask in asks.into_values() {
            self.clock.ask(ask.ask);
            self.audience.ask_again(&ask, Answerer::new(ask.ask, self.decide.clone()));
        }
        if stopping && self.may_stop() {
            self.cause = Some(Cause::Asked(StopReason::User));
            self.phase = Phase::Interrupted(Instant::now() + self.host.stop_grace);
        }
    }

    fn event(&mut self, event: EventKind) {
        self.clock.active();
        if matches!(&event, EventKind::Text(text) if text.parent.is_none())
            && !std::mem::replace(&mut self.observed.text, true)
        {
            figures::first_text(&self.backend.descriptor().name, self.clock.elapsed());
        }
        match self.guard.event(event) {
            Some(event) => self.audience.event(&event, self.guard.transcript()),
            None => self.stop_for(Cause::Excess),
        }
        self.clock.tool_runs(self.guard.transcript().open_tools().next().is_some());
        // Agents without a limit of their own are stopped at the operator's.
        if self.guard.rounds() > self.host.max_turns
            && !self.backend.descriptor().has(Feature::MaxTurns)
        {
            self.stop_for(Cause::Rounds);
        }
    }

    fn decided(&mut self, ask: AskKey, decision: Decision) {
        if self.clock.answered(ask) {
            self.lease.link.ask(LinkRequest::Answer(ask, decision));
        }
    }

    /// A question is over without a decision.
    fn settle(&mut self, ask: AskKey, how: Settled) {
        if self.clock.answered(ask) {
            self.audience.settled(ask, how);
        }
    }

    /// Does what is due.
    fn clock(&mut self) {
        let now = Instant::now();
        for ask in self.clock.expired_asks(now) {
            tracing::info!(ask, "nobody answered the agent's question in time; it is told so");
            self.lease.link.ask(LinkRequest::Answer(ask, Decision::Dismissed));
            self.settle(ask, Settled::Expired);
        }
        match self.phase {
            Phase::Interrupted(at) if at <= now => self.give_up(),
            Phase::GivenUp(at) if at <= now => self.phase = Phase::Over,
            _ => {}
        }
        match self.clock.overdue(now) {
            Some(Overdue::Budget) => self.stop_for(Cause::TimedOut),
            Some(Overdue::Silence) => self.stop_for(Cause::Silent),
            None => {}
        }
    }

    /// When `clock` is needed next.
    fn deadline(&self) -> Instant {
        let phase = match self.phase {
            Phase::Interrupted(at) | Phase::GivenUp(at) => Some(at),
            Phase::Running | Phase::Over => None,
        };
        let times =
            [phase, self.clock.next_expiry(), self.clock.limit().filter(|_| self.may_stop())];
        // Without any, only the link can bring news; looking again now and then does no harm.
        times.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + CUSTODY_TIMEOUT)
    }

    /// Whether nothing has stopped or ended the turn yet.
    fn may_stop(&self) -> bool {
        self.cause.is_none() && !self.guard.is_done()
    }

    fn stop_for(&mut self, cause: Cause) {
        if self.may_stop() {
            self.stop(cause);
        }
    }

    /// First step of stopping: the guest asks its agent.
    fn stop(&mut self, cause: Cause) {
        self.cause = Some(cause);
        self.phase = Phase::Interrupted(Instant::now() + self.host.stop_grace);
        self.lease.link.ask(LinkRequest::Interrupt(self.lease.turn));
    }

    /// Second step: the link ends the agent.
    fn give_up(&mut self) {
        if !self.is_one_shot() {
            tracing::warn!("the agent does not react to being interrupted; its link is given up");
        }
        self.phase = Phase::GivenUp(Instant::now() + self.host.stop_grace + CUSTODY_TIMEOUT);
        self.lease.link.ask(LinkRequest::GiveUp(self.lease.turn));
    }

    fn finish(mut self) -> TurnResult {
        for ask in self.clock.open_asks() {
            self.audience.settled(ask, Settled::TurnEnded);
        }
        for end in self.guard.close_tools() {
            self.audience.event(&end, self.guard.transcript());
        }
        let took = self.clock.elapsed();
        let excess = self.guard.excess().map(str::to_owned);
        let (transcript, session, done) = self.guard.into_parts();
        // A turn of which not everything was taken in has no answer.
        let done = done.filter(|_| excess.is_none());
        let (outcome, text, usage) =
            done.map_or((None, None, None), |done| (Some(done.outcome), done.text, done.usage));
        // A guest that had failed before explains the ending, unless a person wished it.
        let Trouble { guest_failed, failure, agent, stderr } = self.trouble;
        let cause = self.cause.filter(|cause| !guest_failed || matches!(cause, Cause::Asked(_)));
        let stopped = cause.map(|cause| match cause {
            Cause::Asked(reason) => reason.into(),
            Cause::TimedOut => Ending::TimedOut,
            Cause::Silent => Ending::Silent,
            Cause::Output => Ending::Limit("too much output".to_owned()),
            Cause::Rounds => Ending::Limit(format!("more than {} tool uses", self.host.max_turns)),
            Cause::Excess => Ending::Limit(excess.unwrap_or_default()),
        });
        let text = text.unwrap_or_else(|| transcript.text());
        let usage = usage.or_else(|| transcript.usage());
        let observed = Observed { output: self.lease.link.has_output(), ..self.observed };
        let seen = Seen {
            observed,
            transcript: &transcript,
            text: &text,
            usage: usage.as_ref(),
            lost: self.examined.lost.as_deref(),
        };
        let ending = Ending::of(outcome, failure, stopped, agent)
            .in_words(&stderr)
            .unless_orphaned(observed.orphaned)
            .unless_unread(&seen);
        let silent = ending == Ending::Completed && seen.is_silent();
        let baselines = self.host.agents.baselines();
        let suspicious = silent && baselines.always_answers(&self.backend.descriptor().name);
        self.lease.ending = ending.to_string();
        TurnResult {
            link: self.lease.link.id.to_string(),
            recording: self.lease.link.recording.to_path_buf(),
            // It may have changed while the turn ran.
            generation: self.lease.link.generation(),
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
            suspicious,
            positions: self.examined.positions,
            place: self.lease.into(),
        }
    }
}

/// The reason to stop, once there is one.
async fn stopped(
    stop: &mut watch::Receiver<Option<StopReason>>,
) -> Result<StopReason, watch::error::RecvError> {
    let reason = *stop.wait_for(Option::is_some).await?;
    reason.map_or_else(|| unreachable!("waited for a value"), Ok)
}
