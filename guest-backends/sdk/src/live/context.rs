//! The link from a backend's view: its open turns, and the actions a backend can request.

use std::collections::BTreeMap;

use super::counts::Counts;
use crate::end::TurnResult;
use crate::json::{self, Value};
use crate::rpc::write;
use crate::text::{SAMPLE_BYTES, head};
use crate::wit::{
    Action, Diagnostic, Failure, Level, Line, Outcome, Query, QueryAnswer, QueryResult, SetTimer,
    Signal, StartTurn, SteerOutcome, Steered, Stop, TurnDone, TurnRef,
};
use crate::{Emit, one_shot};

/// First key of turns that the agent begins.
const OWN_TURNS: u32 = 0x8000_0000;

/// The state of the agent's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    None,
    /// Requested from the host, which has not answered.
    Asked,
    /// Running; its handshake is not complete.
    Up,
    Ready,
    /// Asked to exit: its stdin is closed.
    Leaving,
}

/// A turn that has not ended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) name: TurnRef,
    /// The command that started the turn, until the agent has the prompt.
    pub(super) start: Option<Box<StartTurn>>,
    pub(super) prompted: bool,
    pub(super) interrupted: bool,
    /// Whether the agent began the turn by itself.
    pub(super) own: bool,
}

/// The state of a link.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) phase: Phase,
    /// Key of the latest process.
    pub(super) proc: u32,
    /// Open turns by session; a session has at most one.
    pub(super) turns: BTreeMap<u32, Open>,
    /// The turn that ended last.
    pub(super) ended: Option<TurnRef>,
    /// Turns by session that wait until a turn that the agent began ends.
    pub(super) next: BTreeMap<u32, StartTurn>,
    /// Number of turns that the agent began.
    pub(super) own_turns: u32,
    /// Queries of the host that wait for the agent.
    pub(super) queries: Vec<Query>,
    /// The timer that limits how long the agent may take to exit.
    pub(super) leaving: Option<u32>,
    /// Whether the agent must exit and not be restarted for waiting turns.
    pub(super) closing: bool,
    /// Whether to ask the agent to exit once the backend has handled the current input.
    pub(super) leave: bool,
    /// The reason why the running process cannot be used.
    pub(super) useless: Option<Failure>,
    pub(super) now: f64,
    pub(super) timers: u32,
    /// Number of calls of tools of the host.
    pub(super) calls: u32,
}

impl Link {
    /// Returns whether `proc` is the current process.
    pub(super) fn is(&self, proc: u32) -> bool {
        self.phase != Phase::None && self.proc == proc
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Ready && self.turns.is_empty() && self.queries.is_empty()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { own_turns: self.own_turns, timers: self.timers, calls: self.calls }
    }

    pub(super) fn open(&mut self, name: TurnRef, start: Option<StartTurn>) {
        let own = start.is_none();
        let open =
            Open { name, prompted: own, start: start.map(Box::new), interrupted: false, own };
        self.turns.insert(name.session, open);
    }

    /// Returns whether anything waits for an agent.
    pub(super) fn waits(&self) -> bool {
        !self.queries.is_empty() || self.turns.values().any(|open| open.start.is_some())
    }

    /// Returns whether the exiting agent will be restarted.
    pub(super) fn comes_back(&self) -> bool {
        self.phase == Phase::Leaving && !self.closing && self.waits()
    }

    /// Returns whether a turn is open or waits for a turn that the agent began.
    pub(super) fn has(&self, turn: TurnRef) -> bool {
        self.turns.get(&turn.session).is_some_and(|open| open.name == turn) || self.is_next(turn)
    }

    pub(super) fn is_next(&self, turn: TurnRef) -> bool {
        self.next.get(&turn.session).is_some_and(|next| next.turn == turn.turn)
    }

    /// Returns whether another turn of a session can wait for the open one.
    pub(super) fn may_wait(&self, session: u32) -> bool {
        self.turns.get(&session).is_some_and(|open| open.own) && !self.next.contains_key(&session)
    }

    /// Removes and returns the turns that need not wait any longer.
    pub(super) fn free(&mut self) -> Vec<StartTurn> {
        self.next
            .extract_if(.., |session, _| !self.turns.contains_key(session))
            .map(|(_, start)| start)
            .collect()
    }

    /// Returns the sessions whose turns wait for their prompt.
    pub(super) fn waiting(&self) -> Vec<u32> {
        self.turns
            .values()
            .filter(|open| open.start.is_some())
            .map(|open| open.name.session)
            .collect()
    }

    /// Returns each open turn with whether the agent has its prompt and whether it was interrupted.
    pub(super) fn open_turns(&self) -> Vec<(TurnRef, bool, bool)> {
        self.turns.values().map(|open| (open.name, open.prompted, open.interrupted)).collect()
    }
}

/// A link for use by its backend: queries its state and requests actions.
#[derive(Debug)]
pub struct LinkContext<'a> {
    link: &'a mut Link,
    out: &'a mut Vec<Action>,
}

impl<'a> LinkContext<'a> {
    pub(super) fn new(link: &'a mut Link, out: &'a mut Vec<Action>) -> Self {
        Self { link, out }
    }

    /// Returns the key of the agent's latest process.
    #[must_use]
    pub fn proc(&self) -> u32 {
        self.link.proc
    }

    /// Returns the key of the agent's process if it was requested or runs.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        (self.link.phase != Phase::None).then_some(self.link.proc)
    }

    /// Returns the milliseconds since the link was opened.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.link.now
    }

    /// Reports that the handshake is complete: waiting turns and queries may go to the agent.
    pub fn ready(&mut self) {
        if self.link.phase == Phase::Up {
            self.link.phase = Phase::Ready;
        }
    }

    /// Returns whether the agent is ready and was not asked to exit.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.link.phase == Phase::Ready
    }

    /// Returns whether the agent was asked to exit.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.link.phase == Phase::Leaving
    }

    /// Returns the list of actions, for actions without a method here.
    pub fn out(&mut self) -> &mut Vec<Action> {
        self.out
    }

    /// Appends an action.
    pub fn action(&mut self, action: Action) {
        self.out.push(action);
    }

    /// Writes a line to the agent's stdin.
    pub fn say(&mut self, line: &str) {
        self.out.push(write(self.link.proc, format!("{line}\n")));
    }

    /// Returns the turn that the agent works on; of several, that of the lowest session.
    #[must_use]
    pub fn turn(&self) -> Option<TurnRef> {
        self.link.turns.values().find(|open| open.prompted).map(|open| open.name)
    }

    /// Returns the open turn of a session, whether or not the agent has its prompt.
    #[must_use]
    pub fn turn_of(&self, session: u32) -> Option<TurnRef> {
        self.link.turns.get(&session).map(|open| open.name)
    }

    /// Returns whether the agent has the prompt of a session's open turn.
    #[must_use]
    pub fn is_prompted(&self, session: u32) -> bool {
        self.link.turns.get(&session).is_some_and(|open| open.prompted)
    }

    /// Returns whether a session's open turn was interrupted.
    #[must_use]
    pub fn is_interrupted(&self, session: u32) -> bool {
        self.link.turns.get(&session).is_some_and(|open| open.interrupted)
    }

    /// Begins a turn that the agent starts by itself. If the host starts a turn in the session in
    /// the meantime, it waits for the end of this one. Returns `None` if the session has an open
    /// turn or the agent is not [ready](LinkContext::ready).
    pub fn begin(&mut self, session: u32) -> Option<TurnRef> {
        if !self.is_ready() || self.link.turns.contains_key(&session) {
            return None;
        }
        let name = TurnRef { session, turn: OWN_TURNS + self.link.own_turns };
        self.link.own_turns += 1;
        self.link.open(name, None);
        self.out.push(Action::TurnBegun(name));
        Some(name)
    }

    /// Returns a writer for events of a turn.
    pub fn emit(&mut self, turn: TurnRef) -> Emit<'_> {
        Emit::new(turn, self.out)
    }

    /// Parses a line that is a JSON object. Reports other lines as unrecognised and skips blank
    /// ones.
    pub fn object<'l>(&mut self, line: &'l Line) -> Option<Value<'l>> {
        json::object(line, |what, text| self.unrecognised(what, None, text))
    }

    /// Reports output that this parser does not know: in an open turn, or else in the operator's
    /// log.
    pub fn unrecognised(&mut self, what: impl Into<String>, path: Option<&str>, output: &str) {
        let name = self.turn().or_else(|| self.link.turns.values().next().map(|open| open.name));
        match name {
            Some(name) => self.emit(name).unrecognised(what, path.map(str::to_owned), output),
            None => {
                let text = format!(
                    "unrecognised outside a turn: {}: {}",
                    what.into(),
                    head(output, SAMPLE_BYTES / 8)
                );
                self.out.push(Action::Diagnostic(Diagnostic { level: Level::Warn, text }));
            }
        }
    }

    /// Ends a turn if it is open. A failure of an interrupted turn counts as interrupted.
    pub fn end(&mut self, turn: TurnRef, mut result: TurnResult) {
        if self.link.turns.get(&turn.session).is_none_or(|open| open.name != turn) {
            return;
        }
        if let Some(open) = self.link.turns.remove(&turn.session)
            && open.interrupted
            && matches!(result.outcome, Outcome::Failed(_))
        {
            result.outcome = Outcome::Interrupted;
        }
        self.link.ended = Some(turn);
        self.out.push(one_shot::done(turn, result));
    }

    pub(super) fn refuse_turn(&mut self, turn: TurnRef, outcome: Outcome) {
        let TurnRef { session, turn } = turn;
        self.out.push(Action::TurnDone(TurnDone {
            session,
            turn,
            outcome,
            text: None,
            usage: None,
        }));
    }

    /// Reports the outcome of a steered message.
    pub fn steered(&mut self, message: u32, outcome: SteerOutcome) {
        self.out.push(Action::Steered(Steered { message, outcome }));
    }

    /// Defers a query of the host until the agent is ready, and starts the agent if it does not
    /// run.
    pub fn later(&mut self, query: Query) {
        self.link.queries.push(query);
    }

    /// Answers a query of the host.
    pub fn answer(&mut self, query: u32, answer: QueryResult) {
        self.out.push(Action::QueryAnswer(QueryAnswer { query, answer }));
    }

    /// Answers a query of the host with a failure.
    pub fn refuse(&mut self, query: u32, why: Failure) {
        self.answer(query, QueryResult::Failed(why));
    }

    /// Sets a timer and returns its key, which [`Agent::timer`](super::Agent::timer) receives.
    pub fn set_timer(&mut self, after_ms: u32) -> u32 {
        self.link.timers += 1;
        self.out.push(Action::SetTimer(SetTimer { timer: self.link.timers, after_ms }));
        self.link.timers
    }

    /// Reports that the agent calls a tool of the host in a turn, and returns the key of the call.
    /// [`Agent::tool_result`](super::Agent::tool_result) receives the result.
    pub fn tool_request(&mut self, turn: TurnRef, name: &str, input: String) -> u32 {
        self.link.calls += 1;
        let call = self.link.calls;
        self.emit(turn).tool_request(call, name, input);
        call
    }

    /// Asks the agent to exit. It is restarted if anything waits by then.
    pub fn restart(&mut self) {
        self.link.leave = true;
    }

    /// Asks the agent to exit and does not restart it.
    pub fn leave(&mut self) {
        self.link.closing = true;
        self.link.leave = true;
    }

    /// Declares the agent unusable: running turns are lost, everything that waits fails, and the
    /// agent is stopped. Has no effect on an agent that was already asked to exit.
    pub fn give_up(&mut self, why: Failure) {
        self.link.useless = Some(why);
    }

    /// Sends the agent a signal. Every process it started is killed two seconds later in any case.
    pub fn stop(&mut self, signal: Signal) {
        self.out.push(Action::Stop(Stop { proc: self.link.proc, signal, grace_ms: 2000 }));
    }
}
