//! Driving one turn on its link: what the agent does goes to the audience, people's decisions to
//! the agent, until there is one outcome.
//!
//! Owns the clocks of the turn and the ladder by which it is stopped. Processes and the guest are
//! the link's. Pinned by `tests/dispatch`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::ending::{Ending, Seen, TurnResult};
use super::guard::Guard;
use super::link::{Report, Request};
use super::links::{Lease, Links, Wanted};
use super::{Answerer, Audience, Backend, Blob, Generation, GuestFailure, Host, Settled};
use crate::agent::descriptor::Feature;
use crate::agent::{AskKey, Decision, EventKind, Failure, Part, StartTurn, SteerOutcome};
use crate::event::Lane;
use crate::figures;

/// Time a link has, beyond the grace, to end what it was told to give up.
const CUSTODY: Duration = Duration::from_secs(15);
/// Links a turn tries that are about to close at that very moment.
const TRIES: u32 = 5;

/// Why a turn is stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A person asked.
    User,
    /// The gateway is shutting down.
    Shutdown,
}

/// A further message for a running turn.
#[derive(Debug)]
pub struct Steering {
    /// What people wrote, neutralised.
    pub parts: Vec<Part>,
    /// What became of it; closed when the turn ended first.
    pub told: oneshot::Sender<SteerOutcome>,
}

/// What a turn needs to run.
pub struct TurnRequest {
    /// Correlation id: in logs, in the recording and in what users are told.
    pub id: String,
    /// The event's sequence number.
    pub event: u64,
    /// Where the event waited: whose session it is.
    pub lane: Lane,
    /// The generation it runs on, to its end.
    pub backend: Arc<dyn Backend>,
    /// What the guest is told; the keys are the link's affair.
    pub start: StartTurn,
    /// The bytes of the files in it.
    pub blobs: Vec<Blob>,
    /// Becomes a value when the turn shall stop.
    pub stop: watch::Receiver<Option<StopReason>>,
    /// Messages for the agent while it works; only for backends with the feature `steer`.
    pub steers: mpsc::UnboundedReceiver<Steering>,
}

/// Runs a turn. Dropping the future ends it, and with it an agent that serves nobody else.
pub async fn run(request: TurnRequest, links: &Links, audience: &mut dyn Audience) -> TurnResult {
    let TurnRequest { id, event, lane, backend, start, blobs, mut stop, mut steers } = request;
    let started = Instant::now();
    let (decide, mut decisions) = mpsc::unbounded_channel();
    let mut tries = 0;
    let mut driver = loop {
        let wanted = Wanted { id: &id, event, lane: &lane, backend: &backend, blobs: &blobs };
        let mut lease = links.begin(wanted, start.clone()).await;
        tries += 1;
        let first = lease.reports.recv().await;
        if matches!(first, Some(Report::Refused)) && tries < TRIES {
            continue;
        }
        let mut driver = Driver {
            host: links.host(),
            audience,
            decide,
            guard: Guard::default(),
            lease,
            one_shot: backend.descriptor().sharing == crate::agent::descriptor::Sharing::Turn,
            limited: backend.descriptor().has(Feature::MaxTurns),
            asks: BTreeMap::new(),
            standing: None,
            cause: None,
            failure: None,
            blind: false,
            trouble: None,
            stderr: String::new(),
            over: false,
            spoke: false,
            said: false,
            left: false,
            asked: false,
            backend: backend.descriptor().name.clone(),
            generation: backend.generation().clone(),
            agent_version: links.host().agent_version(&backend.descriptor().name),
            started,
            budget: started + links.host().query_timeout,
            heard: Instant::now(),
            leaving: None,
        };
        driver.told(first);
        break driver;
    };
    let mut steering = true;
    loop {
        if let Some(ready) = driver.audience.before_more() {
            ready.await;
        }
        if driver.is_over() {
            break;
        }
        let deadline = driver.deadline();
        tokio::select! {
            report = driver.lease.reports.recv() => driver.told(report),
            Some((ask, decision)) = decisions.recv() => driver.decided(ask, decision),
            steer = steers.recv(), if steering => match steer {
                Some(Steering { parts, told }) => driver.lease.link.ask(Request::Steer(driver.lease.turn, parts, told)),
                None => steering = false,
            },
            () = sleep_until(deadline) => driver.clock(),
            Ok(reason) = stopped(&mut stop), if driver.cause.is_none() && !driver.guard.is_done() => driver.stop(Cause::Asked(reason)),
        }
    }
    driver.finish()
}

/// Why the host stopped the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Asked(StopReason),
    TimedOut,
    Silent,
    Output,
    Rounds,
    /// It tells more than a turn may.
    Excess,
}

/// How far the turn is on its way out.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    /// The guest was told to interrupt; when the link is told to give up.
    Interrupted(Instant),
    /// The link was told to give up; when it is not waited for any longer.
    GivenUp(Instant),
}

struct Driver<'a> {
    host: &'a Host,
    audience: &'a mut dyn Audience,
    /// Where decisions of people come from.
    decide: mpsc::UnboundedSender<(AskKey, Decision)>,
    guard: Guard,
    lease: Lease,
    one_shot: bool,
    /// The agent keeps the limit of rounds itself.
    limited: bool,
    /// Questions without an answer, and when each expires.
    asks: BTreeMap<AskKey, Instant>,
    /// Since when the clock stands still.
    standing: Option<Instant>,
    cause: Option<Cause>,
    failure: Option<GuestFailure>,
    /// The guest failed, and the agent is heard to its end all the same.
    blind: bool,
    /// What to say when the turn ends without the guest saying so.
    trouble: Option<Failure>,
    /// The end of what the process said there that exited last.
    stderr: String,
    over: bool,
    /// The agent has said something.
    spoke: bool,
    /// An agent of this turn only has said something on its stdout.
    said: bool,
    /// The agent has exited before its backend ended the turn, and calls that a success.
    left: bool,
    /// People were asked something.
    asked: bool,
    backend: String,
    generation: Generation,
    /// As known at the start.
    agent_version: Option<String>,
    started: Instant,
    /// When the turn has used its time up.
    budget: Instant,
    /// Last output of the agent.
    heard: Instant,
    leaving: Option<Leaving>,
}

impl Driver<'_> {
    /// A one-shot turn is over when nothing of its agent is left; others when the guest says so.
    fn is_over(&self) -> bool {
        self.over || (self.guard.is_done() && !self.one_shot)
    }

    fn told(&mut self, report: Option<Report>) {
        match report {
            Some(Report::Event(event)) => {
                self.heard = Instant::now();
                if matches!(&event, EventKind::Text(text) if text.parent.is_none())
                    && !std::mem::replace(&mut self.spoke, true)
                {
                    figures::first_text(&self.backend, self.started.elapsed());
                }
                match self.guard.event(event) {
                    Some(event) => self.audience.event(&event, self.guard.transcript()),
                    None => self.stop_for(Cause::Excess),
                }
                self.count_rounds();
            }
            Some(Report::Session(ready)) => match self.guard.session(ready) {
                Ok(native) => self.lease.learned(native),
                Err(reason) => tracing::debug!(%reason, "dropped a session id of the backend"),
            },
            Some(Report::Ask(ask)) => {
                self.asked = true;
                self.standing.get_or_insert_with(Instant::now);
                self.asks.insert(ask.ask, Instant::now() + self.host.ask_timeout);
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
            Some(Report::Heard) => self.heard = Instant::now(),
            Some(Report::Said) => self.said = true,
            Some(Report::Left) => self.left = !self.guard.is_done(),
            Some(Report::TooMuch) => self.stop_for(Cause::Output),
            Some(Report::Ignored) => {
                if let Some(Leaving::Interrupted(_)) = self.leaving {
                    self.give_up();
                }
            }
            Some(Report::Trouble(failure)) => self.trouble = Some(failure),
            Some(Report::Stderr(tail)) => self.stderr = tail,
            Some(Report::Blind) => self.blind = self.cause.is_none(),
            Some(Report::Over(failure)) => {
                self.failure = self.failure.take().or(failure);
                self.over = true;
            }
            Some(Report::Refused) | None => {
                let message = "the link to the agent broke before the turn began".to_owned();
                self.trouble.get_or_insert(Failure {
                    kind: crate::agent::FailureKind::Crashed,
                    message,
                    retry_after_ms: None,
                });
                self.over = true;
            }
        }
    }

    fn decided(&mut self, ask: AskKey, decision: Decision) {
        if self.asks.remove(&ask).is_some() {
            self.lease.link.ask(Request::Answer(ask, decision));
            self.resume();
        }
    }

    /// A question is over without a decision.
    fn settle(&mut self, ask: AskKey, how: Settled) {
        if self.asks.remove(&ask).is_some() {
            self.audience.settled(ask, how);
            self.resume();
        }
    }

    /// Lets the clock go on when nothing is asked any more.
    fn resume(&mut self) {
        if self.asks.is_empty()
            && let Some(since) = self.standing.take()
        {
            let stood = since.elapsed();
            self.budget += stood;
            self.heard += stood;
        }
    }

    /// Does what is due.
    fn clock(&mut self) {
        let now = Instant::now();
        let expired: Vec<AskKey> =
            self.asks.iter().filter(|(_, at)| **at <= now).map(|(ask, _)| *ask).collect();
        for ask in expired {
            tracing::info!(ask, "nobody answered the agent's question in time; it is told so");
            self.lease.link.ask(Request::Answer(ask, Decision::Dismissed));
            self.settle(ask, Settled::Expired);
        }
        match self.leaving {
            Some(Leaving::Interrupted(at)) if at <= now => self.give_up(),
            Some(Leaving::GivenUp(at)) if at <= now => self.over = true,
            _ => {}
        }
        if self.standing.is_none() {
            if now >= self.budget {
                self.stop_for(Cause::TimedOut);
            } else if self.host.idle_timeout.is_some_and(|idle| now >= self.heard + idle) {
                self.stop_for(Cause::Silent);
            }
        }
    }

    /// When `clock` is needed next.
    fn deadline(&self) -> Instant {
        let mut times: Vec<Instant> = self.asks.values().copied().collect();
        times.extend(self.leaving.map(|(Leaving::Interrupted(at) | Leaving::GivenUp(at))| at));
        if self.cause.is_none() && !self.guard.is_done() && self.standing.is_none() {
            times.push(self.budget);
            times.extend(self.host.idle_timeout.map(|idle| self.heard + idle));
        }
        // Without any, only the link can bring news; looking again now and then does no harm.
        times.into_iter().min().unwrap_or_else(|| Instant::now() + CUSTODY)
    }

    /// Stops agents that have no limit of their own at the operator's limit of tool uses.
    fn count_rounds(&mut self) {
        if !self.limited && self.guard.rounds() > self.host.max_turns {
            self.stop_for(Cause::Rounds);
        }
    }

    fn stop_for(&mut self, cause: Cause) {
        if self.cause.is_none() && !self.guard.is_done() {
            self.stop(cause);
        }
    }

    /// First step of stopping: the guest asks its agent.
    fn stop(&mut self, cause: Cause) {
        self.cause = Some(cause);
        self.leaving = Some(Leaving::Interrupted(Instant::now() + self.host.stop_grace));
        self.lease.link.ask(Request::Interrupt(self.lease.turn));
    }

    /// Second step: the link ends the agent.
    fn give_up(&mut self) {
        if !self.one_shot {
            tracing::warn!("the agent does not react to being interrupted; its link is given up");
        }
        self.leaving = Some(Leaving::GivenUp(Instant::now() + self.host.stop_grace + CUSTODY));
        self.lease.link.ask(Request::GiveUp(self.lease.turn));
    }

    fn finish(mut self) -> TurnResult {
        for ask in std::mem::take(&mut self.asks).into_keys() {
            self.audience.settled(ask, Settled::TurnEnded);
        }
        for end in self.guard.close_tools() {
            self.audience.event(&end, self.guard.transcript());
        }
        let took = self.started.elapsed();
        let excess = self.guard.excess().map(str::to_owned);
        let (transcript, session, done) = self.guard.into_parts();
        // What came of a turn of which not everything was taken in is not its answer.
        let done = done.filter(|_| excess.is_none());
        let (outcome, text, usage) =
            done.map_or((None, None, None), |done| (Some(done.outcome), done.text, done.usage));
        // What came of an agent whose guest had failed before is explained by that, but for a
        // person's wish.
        let cause = self.cause.filter(|cause| !self.blind || matches!(cause, Cause::Asked(_)));
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
        let heard = self.lease.link.heard();
        let (asked, said, left) = (self.asked, self.said, self.left);
        let seen = Seen {
            transcript: &transcript,
            text: &text,
            asked,
            usage: usage.as_ref(),
            said,
            left,
            heard,
        };
        let ending = Ending::of(outcome, self.failure, stopped, self.trouble)
            .in_words(&self.stderr)
            .unless_unread(&seen);
        self.lease.ending = ending.to_string();
        let (link, recording) =
            (self.lease.link.id.to_string(), self.lease.link.recording.to_path_buf());
        let (generation, agent_version) = (self.generation, self.agent_version);
        TurnResult {
            link,
            recording,
            generation,
            agent_version,
            heard,
            ending,
            text,
            session,
            usage,
            transcript,
            took,
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
