//! The life of a link, in a task of its own: one thing happens after the other.
//!
//! Here the task waits for what comes next and serves requests. `actions` calls the guest and does
//! what it wants, `launch` starts its processes, `output` takes in what the agent says, `closing`
//! is the way out, `renewal` the way to a newer generation, `log` marks the lines of the log. A link
//! that outlives the gateway is `held`, and `rebuild` brings one back; `deeds` says whether a guest
//! agrees with what was done.

mod actions;
mod closing;
mod deeds;
mod held;
mod launch;
mod log;
mod notes;
mod output;
mod rebuild;
mod renewal;
mod unasked;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument as _, Span};

use self::closing::Closing;
pub(crate) use self::deeds::NotRebuilt;
use self::held::written;
pub(crate) use self::notes::{Continued, OpenSession};
use self::rebuild::Rebuilt;
use self::unasked::UnaskedLimit;
use super::files::{Files, Stock};
use super::net::Net;
use super::processes::Processes;
use super::replies::Replies;
use super::turns::{OpenTurn, Session, Turns};
use super::{Begin, Keepsake, LinkRequest, Parts, Report, State};
use crate::conservation::Ledger;
use crate::recording::{Entry, Recording, What};
use crate::{Guest, GuestFailure, Survivor};
use aetheel_model::agent::descriptor::Sharing;
use aetheel_model::agent::{
    Answer, AskKey, Command, Decision, DeliveryWish, Exit, Input, Query, Steer, TimedInput, TurnRef,
};
use aetheel_model::baseline::Baseline;

/// Inputs after which a call into the guest is made although more are there.
const BATCH: usize = 1024;

struct Task {
    parts: Parts,
    state: Arc<State>,
    recording: Recording,
    /// Or how it failed.
    guest: Result<Box<dyn Guest>, GuestFailure>,
    /// For the next call into the guest.
    inputs: Vec<TimedInput>,
    spent: Spent,
    unasked: UnaskedLimit,
    ledger: Ledger,
    turns: Turns,
    replies: Replies,
    processes: Processes,
    net: Net,
    files: Files,
    stock: Stock,
    timers: BTreeMap<u32, Instant>,
    closing: Closing,
    /// The agent's version when the last turn began.
    agent_version: Option<String>,
    /// Marks the link's lines of the log.
    span: Span,
    /// How far the recording is written, where the link outlives the gateway.
    progress: Option<watch::Receiver<u64>>,
    /// What happens now happened in an earlier life of the gateway.
    rebuilding: bool,
}

/// Counts since the last turn began.
#[derive(Default)]
struct Spent {
    /// Lines of the guest for the log.
    remarks: u32,
    /// Actions without effect.
    dropped: u32,
    /// Bytes of actions.
    actions: u64,
    /// Bytes of the agent's output.
    output: u64,
    /// Calls into the guest since anything was waited for.
    calls: u32,
}

/// Runs a link to its end.
pub(super) async fn run(
    mut parts: Parts,
    recording: Recording,
    mut requests: mpsc::UnboundedReceiver<LinkRequest>,
    state: Arc<State>,
) {
    if let Some(bound) = parts.launcher.bind().await {
        parts.launcher = bound;
    }
    let guest = parts.backend.open().await;
    let mut task = Task::new(parts, recording, guest, state);
    // A link is opened for something, which is on its way.
    if let Some(first) = requests.recv().await {
        let span = task.span.clone();
        task.serve(first).instrument(span).await;
        task.live(requests).await;
    } else {
        task.finish(&mut requests).await;
    }
}

/// Brings a link back, from its recording and what else an earlier life of the gateway left; returns
/// what it has, and what must be run for it to live.
pub(super) async fn resume(
    mut parts: Parts,
    recording: Recording,
    (entries, (survivor, keepsake)): (&[Entry], (&Survivor, Keepsake)),
    requests: mpsc::UnboundedReceiver<LinkRequest>,
    state: Arc<State>,
) -> Result<(Rebuilt, impl Future<Output = ()> + Send + 'static + use<>), NotRebuilt> {
    if let Some(bound) = parts.launcher.bind().await {
        parts.launcher = bound;
    }
    let guest = parts.backend.open().await;
    let mut task = Task::new(parts, recording, guest, state);
    let rebuilt = task.rebuild(entries, survivor, keepsake).await?;
    Ok((rebuilt, task.live(requests)))
}

impl Task {
    fn new(
        parts: Parts,
        recording: Recording,
        guest: Result<Box<dyn Guest>, GuestFailure>,
        state: Arc<State>,
    ) -> Self {
        let held = parts.launcher.holds();
        let mut task = Self {
            progress: recording.progress().filter(|_| held),
            recording,
            state,
            guest,
            inputs: Vec::new(),
            spent: Spent::default(),
            unasked: UnaskedLimit::default(),
            ledger: Ledger::default(),
            turns: Turns::default(),
            replies: Replies::default(),
            processes: Processes::default(),
            net: Net::new(),
            files: Files::new(&parts.launcher.scratch(), held),
            stock: Stock::default(),
            timers: BTreeMap::new(),
            closing: Closing::default(),
            agent_version: None,
            span: Span::none(),
            rebuilding: false,
            parts,
        };
        task.renew_span();
        task
    }

    /// Does one thing after the other to the end.
    async fn live(mut self, mut requests: mpsc::UnboundedReceiver<LinkRequest>) {
        let mut reachable = true;
        loop {
            let span = self.span.clone();
            if !self.step(&mut reachable, &mut requests).instrument(span).await {
                break;
            }
        }
        let span = self.span.clone();
        self.finish(&mut requests).instrument(span).await;
        // Only now is nothing of it left.
        drop(self);
        turn_away(&mut requests);
    }

    /// Does one thing after waiting for it; false when nothing can happen any more.
    async fn step(
        &mut self,
        reachable: &mut bool,
        requests: &mut mpsc::UnboundedReceiver<LinkRequest>,
    ) -> bool {
        if !self.inputs.is_empty() {
            self.call_guest().await;
            return true;
        }
        if self.is_over() {
            return false;
        }
        let deadline = self.deadline();
        self.spent.calls = 0;
        tokio::select! {
            (proc, event) = self.processes.next_event() => match event {
                Some(event) => self.process_event(proc, event),
                None => self.process_exited(proc, Exit::Unknown, String::new()),
            },
            request = requests.recv(), if *reachable => match request {
                Some(request) => self.serve(request).await,
                // It is out of reach: it leaves in order.
                None => {
                    *reachable = false;
                    self.retire();
                }
            },
            input = self.net.next() => {
                self.net_input(input);
                while self.inputs.len() < BATCH
                    && let Some(more) = self.net.try_next()
                {
                    self.net_input(more);
                }
            }
            lines = written(&mut self.progress) => self.processes.tell_recorded(lines),
            () = sleep_until(deadline) => self.clock(),
        }
        true
    }

    /// Whether nothing can happen here any more.
    fn is_over(&self) -> bool {
        if !self.processes.is_empty() || self.guest.is_err() {
            return self.processes.is_empty();
        }
        let wanted = self.turns.any_running() || self.replies.has_queries();
        let awaited = !self.timers.is_empty() || self.turns.has_asks() || self.net.is_busy();
        !wanted || !awaited || self.closing.is_interrupted()
    }

    async fn serve(&mut self, request: LinkRequest) {
        match request {
            LinkRequest::Begin(begin) => self.begin(*begin),
            LinkRequest::Interrupt(turn) if self.turns.contains(turn) => {
                if self.guest.is_err() {
                    // There is no guest left that could ask it gently.
                    return self.give_up(turn);
                }
                if self.is_one_shot() {
                    self.closing.interrupt();
                }
                self.recording.host(What::Host("interrupting".to_owned()));
                self.input(Input::Command(Command::Interrupt(turn)));
            }
            LinkRequest::GiveUp(turn) if self.turns.contains(turn) => self.give_up(turn),
            LinkRequest::Answer(ask, decision) => self.answer(ask, decision),
            LinkRequest::Steer(turn, parts, reply_tx) if self.turns.is_running(turn) => {
                let steer = Steer {
                    session: turn.session,
                    turn: turn.turn,
                    message: self.replies.steer(reply_tx),
                    parts,
                    delivery: DeliveryWish::Steer,
                    fresh_id: uuid::Uuid::new_v4().to_string(),
                };
                self.input(Input::Command(Command::Steer(steer)));
            }
            LinkRequest::End(turn, ending) => self.end(turn, ending),
            LinkRequest::Query(query) => self.query(query),
            LinkRequest::CloseSession(session) => {
                if self.turns.close_session(session) {
                    self.input(Input::Command(Command::CloseSession(session)));
                }
            }
            LinkRequest::Renew(backend, reply_tx) => {
                let _ = reply_tx.send(self.renew(backend).await);
            }
            LinkRequest::Retire => self.retire(),
            // The turn they name has ended meanwhile.
            LinkRequest::Interrupt(_) | LinkRequest::GiveUp(_) | LinkRequest::Steer(..) => {}
        }
    }

    fn begin(&mut self, begin: Begin) {
        let Begin { id, event, lane, start, blobs, reports } = begin;
        if !self.closing.is_ending() && self.files.are_missing() {
            tracing::warn!("the agent's private folder is gone; the turn gets another agent");
            self.retire();
        }
        if self.closing.is_ending() {
            let _ = reports.send(Report::Refused);
            return;
        }
        let turn = TurnRef { session: start.session, turn: start.turn };
        // It is taken: from here on its own clocks count.
        let _ = reports.send(Report::Active);
        self.recording.host(What::Turn {
            turn: id.clone(),
            event,
            lane: lane.to_string(),
            session: turn.session,
            key: turn.turn,
        });
        for blob in &blobs {
            // The bytes themselves are people's, and large.
            self.recording.host(What::Host(format!(
                "blob {}: {} bytes, sha256 {}",
                blob.key,
                blob.bytes.len(),
                blob.digest()
            )));
        }
        if self.turns.is_empty() {
            self.ledger.clear();
            self.state.set_output(false);
        }
        self.stock.keep(turn.turn, blobs);
        self.agent_version = self.parts.host.agent_version(self.name());
        self.turns.begin(
            OpenTurn { turn, id, event, reports, done: false },
            Session { lane, cwd: start.cwd.clone(), safety: start.settings.safety },
        );
        self.state.set_turns(self.turns.len());
        self.renew_span();
        self.spent = Spent::default();
        self.processes.turn_begins();
        self.closing.turn_begins();
        self.input(Input::Command(Command::StartTurn(start)));
    }

    /// The driver has let go of the turn.
    fn end(&mut self, turn: TurnRef, ending: String) {
        let Some(open) = self.turns.end(turn.turn) else { return };
        self.renew_span();
        self.recording.host(What::Ending { turn: open.id, how: ending });
        self.stock.let_go(turn.turn);
        self.tell_recorded();
        if open.done {
            self.rest();
        } else {
            if self.turns.is_empty() {
                // Let go of in the middle, as by a panic: the agent must not go on.
                self.processes.kill();
            }
            self.retire();
        }
    }

    fn answer(&mut self, ask: AskKey, decision: Decision) {
        let Some(secrets) = self.turns.answered(ask) else { return };
        if let Decision::Answers(answers) = &decision {
            let secret = answers.iter().filter(|(id, _)| secrets.contains(id));
            self.recording.hide(secret.flat_map(|(_, words)| words));
        }
        self.input(Input::Command(Command::Answer(Answer { ask, decision })));
    }

    fn query(&mut self, query: super::Query) {
        let super::Query { session, kind, reply_tx } = query;
        let query = self.replies.query(session, reply_tx);
        self.closing.used(self.parts.host.link_idle);
        self.input(Input::Command(Command::Query(Query { query, session, kind })));
    }

    fn input(&mut self, input: Input) {
        let at_ms = self.recording.now();
        self.inputs.push(TimedInput { at_ms, input });
    }

    fn name(&self) -> &str {
        &self.parts.backend.descriptor().name
    }

    fn baseline(&self) -> Option<Baseline> {
        self.parts.host.agents.baselines().get(self.name(), self.agent_version.as_deref())
    }

    /// Whether its agent serves one turn and leaves.
    fn is_one_shot(&self) -> bool {
        self.parts.backend.descriptor().sharing == Sharing::Turn
    }

    /// Longest line, and longest body of an answer, bytes.
    fn line_limit(&self) -> usize {
        let host = self.parts.host.line_limit;
        self.parts.backend.descriptor().line_limit.map_or(host, |limit| host.min(limit as usize))
    }

    /// The end: whoever follows a turn is told, and says how it ended.
    async fn finish(&mut self, requests: &mut mpsc::UnboundedReceiver<LinkRequest>) {
        self.processes.kill();
        self.state.close();
        let baseline = self.baseline();
        self.turns.report_examined(|turn| self.ledger.examine(turn, None, baseline.as_ref()));
        self.turns.report_all(|| Report::Over(self.guest.as_ref().err().cloned()));
        while !self.turns.is_empty() {
            match requests.recv().await {
                Some(LinkRequest::Begin(begin)) => drop(begin.reports.send(Report::Refused)),
                Some(LinkRequest::End(turn, ending)) => self.end(turn, ending),
                Some(_) => {}
                None => break,
            }
        }
        self.let_go().await;
    }
}

/// Turns away what was asked of a link that has ended.
fn turn_away(requests: &mut mpsc::UnboundedReceiver<LinkRequest>) {
    requests.close();
    while let Ok(request) = requests.try_recv() {
        if let LinkRequest::Begin(begin) = request {
            let _ = begin.reports.send(Report::Refused);
        }
    }
}
