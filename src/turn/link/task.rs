//! The life of a link: one thing happens after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument as _, Span};

use super::closing::Leaving;
use super::files::{Files, Stock};
use super::processes::{Running, next_event};
use super::{Begin, Parts, Pending, Report, Request, State};
use crate::agent::descriptor::Sharing;
use crate::agent::{
    Answer, AskKey, Command, Decision, DeliveryWish, Exit, Input, ProcKey, Query, Safety,
    SessionKey, Steer, SteerOutcome, TimedInput, TurnKey, TurnRef,
};
use crate::event::Lane;
use crate::fold::Transcript;
use crate::turn::recording::{Recording, What};
use crate::turn::{Guest, GuestFailure, ProcessEvent};

/// Inputs after which a call into the guest is made although more are there.
pub(super) const BATCH: usize = 1024;
/// What came over HTTP and is not yet with the guest.
const INBOX: usize = 64;

pub(super) struct Task {
    pub(super) parts: Parts,
    pub(super) state: Arc<State>,
    pub(super) recording: Recording,
    pub(super) one_shot: bool,
    /// None once it failed.
    pub(super) guest: Option<Box<dyn Guest>>,
    pub(super) failure: Option<GuestFailure>,
    /// Not yet told to the guest.
    pub(super) inputs: Vec<TimedInput>,
    /// Calls since anything was waited for.
    pub(super) unwaited: u32,
    /// Since the last turn began: lines of the guest for the log, bytes of actions, bytes of the
    /// agent's output.
    pub(super) remarks: u32,
    pub(super) said: u64,
    output: u64,
    pub(super) turns: BTreeMap<TurnKey, Open>,
    /// Turns the agent began by itself, and what it said in them.
    pub(super) unasked: BTreeMap<TurnKey, (SessionKey, Transcript)>,
    pub(super) sessions: HashMap<SessionKey, Seat>,
    pub(super) asks: BTreeMap<AskKey, TurnKey>,
    /// Which questions of an ask are answered with a secret.
    pub(super) secret: BTreeMap<AskKey, Vec<String>>,
    pub(super) steers: HashMap<u32, oneshot::Sender<SteerOutcome>>,
    pub(super) queries: HashMap<u32, Pending>,
    keys: u32,
    pub(super) processes: BTreeMap<ProcKey, Running>,
    pub(super) spawns: u32,
    pub(super) files: Files,
    pub(super) stock: Stock,
    pub(super) timers: BTreeMap<u32, Instant>,
    pub(super) net: JoinSet<()>,
    pub(super) inbox: mpsc::Sender<Input>,
    pub(super) requests: BTreeSet<u32>,
    pub(super) streams: HashMap<u32, AbortHandle>,
    pub(super) leaving: Leaving,
    pub(super) retired: bool,
    pub(super) doomed: Option<Instant>,
    pub(super) idle_until: Option<Instant>,
    /// A turn must end: without a process, nothing is waited for.
    pub(super) interrupted: bool,
    /// The agent's version when the last turn began.
    pub(super) agent_version: Option<String>,
    /// What its lines of the log are marked with.
    pub(super) span: Span,
}

/// An open turn.
pub(super) struct Open {
    pub(super) turn: TurnRef,
    /// Correlation id.
    pub(super) id: String,
    pub(super) event: u64,
    pub(super) reports: mpsc::UnboundedSender<Report>,
    /// The guest has ended it.
    pub(super) done: bool,
}

/// What is known of a session.
pub(super) struct Seat {
    pub(super) lane: Lane,
    pub(super) cwd: String,
    pub(super) safety: Safety,
}

pub(super) enum Happening {
    Process(ProcKey, Option<ProcessEvent>),
    Asked(Option<Request>),
    Net(Input),
    Clock,
}

/// Runs a link to its end.
pub(super) async fn live(
    parts: Parts,
    recording: Recording,
    mut asked: mpsc::UnboundedReceiver<Request>,
    state: Arc<State>,
) {
    let (guest, failure) = match parts.backend.open().await {
        Ok(guest) => (Some(guest), None),
        Err(failure) => (None, Some(failure)),
    };
    let (inbox, mut came) = mpsc::channel(INBOX);
    let one_shot = parts.backend.descriptor().sharing == Sharing::Turn;
    let files = Files::new(&parts.host.scratch);
    let mut task = Task {
        recording,
        one_shot,
        parts,
        state,
        guest,
        failure,
        inputs: Vec::new(),
        unwaited: 0,
        remarks: 0,
        said: 0,
        output: 0,
        turns: BTreeMap::new(),
        unasked: BTreeMap::new(),
        sessions: HashMap::new(),
        asks: BTreeMap::new(),
        secret: BTreeMap::new(),
        steers: HashMap::new(),
        queries: HashMap::new(),
        keys: 0,
        processes: BTreeMap::new(),
        spawns: 0,
        files,
        stock: Stock::default(),
        timers: BTreeMap::new(),
        net: JoinSet::new(),
        inbox,
        requests: BTreeSet::new(),
        streams: HashMap::new(),
        leaving: Leaving::No,
        retired: false,
        doomed: None,
        idle_until: None,
        interrupted: false,
        agent_version: None,
        span: Span::none(),
    };
    task.mark();
    // A link is opened for something, which is on its way.
    if let Some(first) = asked.recv().await {
        let span = task.span.clone();
        task.asked(first).instrument(span).await;
        task.run(&mut asked, &mut came).await;
    }
    let span = task.span.clone();
    task.finish(&mut asked).instrument(span).await;
    // Only now is nothing of it left.
    Task::turn_away(&mut asked);
}

impl Task {
    async fn run(
        &mut self,
        asked: &mut mpsc::UnboundedReceiver<Request>,
        came: &mut mpsc::Receiver<Input>,
    ) {
        let mut reachable = true;
        loop {
            let span = self.span.clone();
            if !self.step(&mut reachable, asked, came).instrument(span).await {
                return;
            }
        }
    }

    /// Does one thing after waiting for it; false when nothing can happen any more.
    async fn step(
        &mut self,
        reachable: &mut bool,
        asked: &mut mpsc::UnboundedReceiver<Request>,
        came: &mut mpsc::Receiver<Input>,
    ) -> bool {
        if !self.inputs.is_empty() {
            match self.guest {
                Some(_) => self.tell().await,
                None => self.write_down(),
            }
            return true;
        }
        if self.is_over() {
            return false;
        }
        let deadline = self.deadline();
        self.unwaited = 0;
        let happening = tokio::select! {
            happening = next_event(&mut self.processes) => happening,
            request = asked.recv(), if *reachable => Happening::Asked(request),
            Some(input) = came.recv() => Happening::Net(input),
            () = sleep_until(deadline) => Happening::Clock,
        };
        match happening {
            Happening::Process(proc, Some(event)) => self.process_event(proc, event),
            Happening::Process(proc, None) => self.exited(proc, Exit::Unknown, String::new()),
            Happening::Asked(Some(request)) => self.asked(request).await,
            // Nobody can reach it any more: it leaves in order.
            Happening::Asked(None) => {
                *reachable = false;
                self.retire();
            }
            Happening::Net(input) => {
                self.net_input(input);
                while self.inputs.len() < BATCH
                    && let Ok(more) = came.try_recv()
                {
                    self.net_input(more);
                }
            }
            Happening::Clock => self.clock(),
        }
        // The net tasks report by the inbox; their own ends are of no interest.
        while self.net.try_join_next().is_some() {}
        true
    }

    /// Whether nothing can happen here any more.
    fn is_over(&self) -> bool {
        if self.guest.is_none() {
            return self.processes.is_empty();
        }
        if !self.processes.is_empty() {
            return false;
        }
        let wanted = self.turns.values().any(|open| !open.done) || !self.queries.is_empty();
        let awaited = !self.timers.is_empty()
            || !self.asks.is_empty()
            || !self.requests.is_empty()
            || !self.streams.is_empty();
        !wanted || !awaited || self.interrupted
    }

    async fn asked(&mut self, request: Request) {
        match request {
            Request::Begin(begin) => self.begin(*begin),
            Request::Interrupt(turn) if self.turns.contains_key(&turn.turn) => {
                if self.guest.is_none() {
                    // Nobody is left who could ask it gently.
                    return self.give_up(turn);
                }
                self.interrupted = self.one_shot;
                self.recording.host(What::Host("interrupting".to_owned()));
                self.input(Input::Command(Command::Interrupt(turn)));
            }
            Request::GiveUp(turn) if self.turns.contains_key(&turn.turn) => self.give_up(turn),
            Request::Answer(ask, decision) => {
                if let (Some(questions), Decision::Answers(answers)) =
                    (self.secret.remove(&ask), &decision)
                {
                    self.recording.hide(
                        answers
                            .iter()
                            .filter(|(id, _)| questions.contains(id))
                            .flat_map(|(_, words)| words),
                    );
                }
                if self.asks.remove(&ask).is_some() {
                    self.input(Input::Command(Command::Answer(Answer { ask, decision })));
                }
            }
            Request::Steer(turn, parts, told)
                if self.turns.get(&turn.turn).is_some_and(|open| !open.done) =>
            {
                let message = self.next_key();
                self.steers.insert(message, told);
                let steer = Steer {
                    session: turn.session,
                    turn: turn.turn,
                    message,
                    parts,
                    delivery: DeliveryWish::Steer,
                    fresh_id: uuid::Uuid::new_v4().to_string(),
                };
                self.input(Input::Command(Command::Steer(steer)));
            }
            Request::End(turn, ending) => self.end(turn, ending),
            Request::Query(query) => self.query(query),
            Request::CloseSession(session) => {
                if self.sessions.remove(&session).is_some() {
                    self.input(Input::Command(Command::CloseSession(session)));
                }
            }
            Request::Renew(backend, told) => {
                let renewed = self.renew(backend).await;
                let _ = told.send(renewed);
            }
            Request::Retire => self.retire(),
            // What they name has ended meanwhile.
            Request::Interrupt(_) | Request::GiveUp(_) | Request::Steer(..) => {}
        }
    }

    fn begin(&mut self, begin: Begin) {
        let Begin { id, event, lane, start, blobs, reports } = begin;
        if self.is_ending() {
            let _ = reports.send(Report::Refused);
            return;
        }
        let turn = TurnRef { session: start.session, turn: start.turn };
        // It is taken: from here on its own clocks count.
        let _ = reports.send(Report::Heard);
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
            self.state.heard.store(false, std::sync::atomic::Ordering::Release);
        }
        self.stock.keep(turn.turn, blobs);
        self.agent_version = self.parts.host.agent_version(self.name());
        self.sessions.insert(
            turn.session,
            Seat { lane, cwd: start.cwd.clone(), safety: start.settings.safety },
        );
        self.turns.insert(turn.turn, Open { turn, id, event, reports, done: false });
        self.state.set_turns(self.turns.len());
        self.mark();
        (self.remarks, self.said, self.output, self.spawns, self.idle_until) = (0, 0, 0, 0, None);
        self.input(Input::Command(Command::StartTurn(start)));
    }

    /// Nobody follows the turn any more.
    fn end(&mut self, turn: TurnRef, ending: String) {
        let Some(open) = self.turns.remove(&turn.turn) else { return };
        self.mark();
        self.recording.host(What::Ending { turn: open.id, how: ending });
        self.asks.retain(|_, asked_in| *asked_in != turn.turn);
        self.stock.let_go(turn.turn);
        if open.done {
            self.rest();
        } else if self.turns.is_empty() {
            // Let go of in the middle, as by a panic: the agent must not go on.
            self.processes.clear();
            self.retire();
        } else {
            self.retire();
        }
    }

    fn query(&mut self, asked: super::Query) {
        let super::Query { session, kind, told } = asked;
        let query = self.next_key();
        self.queries.insert(query, Pending { session, native: None, told });
        if self.idle_until.is_some() {
            self.idle_until = Some(Instant::now() + self.parts.host.link_idle);
        }
        self.input(Input::Command(Command::Query(Query { query, session, kind })));
    }

    /// The agent said something.
    pub(super) fn heard(&mut self, bytes: u64) {
        self.output = self.output.saturating_add(bytes);
        if bytes > 0 {
            self.state.heard.store(true, std::sync::atomic::Ordering::Release);
        }
        if self.output > self.parts.host.output_limit {
            self.tell_turns(|| Report::TooMuch);
        }
        // On a link of many turns, only a turn's own events say that it goes on.
        if bytes > 0 && self.turns.len() == 1 {
            self.tell_turns(|| Report::Heard);
        }
    }

    pub(super) fn input(&mut self, input: Input) {
        let at_ms = self.recording.now();
        self.inputs.push(TimedInput { at_ms, input });
    }

    fn next_key(&mut self) -> u32 {
        self.keys += 1;
        self.keys
    }

    pub(super) fn name(&self) -> &str {
        &self.parts.backend.descriptor().name
    }

    /// The end: whoever follows a turn is told, and says how it ended.
    async fn finish(&mut self, asked: &mut mpsc::UnboundedReceiver<Request>) {
        self.processes.clear();
        self.state.closing.store(true, std::sync::atomic::Ordering::Release);
        self.tell_turns(|| Report::Over(self.failure.clone()));
        while !self.turns.is_empty() {
            match asked.recv().await {
                Some(Request::Begin(begin)) => drop(begin.reports.send(Report::Refused)),
                Some(Request::End(turn, ending)) => self.end(turn, ending),
                Some(_) => {}
                None => break,
            }
        }
    }
}
