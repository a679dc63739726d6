//! The link as a backend sees it: what is open on it, and what can be said on it.

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

/// The first key of turns the agent begins.
const OWN_TURNS: u32 = 0x8000_0000;

/// How far the process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    None,
    /// The host was asked to start it, and has not answered.
    Asked,
    /// Runs, and was not yet greeted.
    Up,
    Ready,
    /// Its stdin is closed: it is to leave by itself.
    Leaving,
}

/// A turn that did not end, and how far the agent knows of it.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) name: TurnRef,
    /// The turn's command, as long as the agent was not told.
    pub(super) start: Option<Box<StartTurn>>,
    pub(super) prompted: bool,
    pub(super) interrupted: bool,
    /// The agent began it by itself.
    pub(super) own: bool,
}

/// The state of a link.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) phase: Phase,
    /// Key of the last process.
    pub(super) proc: u32,
    /// By session: each has at most one.
    pub(super) turns: BTreeMap<u32, Open>,
    /// The turn that ended last.
    pub(super) ended: Option<TurnRef>,
    /// By session: turns that wait for the end of one the agent began.
    pub(super) next: BTreeMap<u32, StartTurn>,
    /// How many turns the agent began.
    pub(super) own_turns: u32,
    /// Questions of the host that wait for the agent.
    pub(super) queries: Vec<Query>,
    /// The timer that runs while the agent is asked to go.
    pub(super) leaving: Option<u32>,
    /// The agent is to go, and not to come back for what waits.
    pub(super) closing: bool,
    /// It is to be asked to go as soon as the backend has said what it had to say.
    pub(super) leave: bool,
    /// Why the process that runs cannot be used.
    pub(super) useless: Option<Failure>,
    pub(super) now: f64,
    pub(super) timers: u32,
}

impl Link {
    /// Whether it is the process there is.
    pub(super) fn is(&self, proc: u32) -> bool {
        self.phase != Phase::None && self.proc == proc
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Ready && self.turns.is_empty() && self.queries.is_empty()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { own_turns: self.own_turns, timers: self.timers }
    }

    pub(super) fn open(&mut self, name: TurnRef, start: Option<StartTurn>) {
        let own = start.is_none();
        let open =
            Open { name, prompted: own, start: start.map(Box::new), interrupted: false, own };
        self.turns.insert(name.session, open);
    }

    /// Whether anything waits for an agent.
    pub(super) fn waits(&self) -> bool {
        !self.queries.is_empty() || self.turns.values().any(|open| open.start.is_some())
    }

    /// Whether the agent that leaves is wanted again.
    pub(super) fn comes_back(&self) -> bool {
        self.phase == Phase::Leaving && !self.closing && self.waits()
    }

    /// Whether a turn is open, or waits for the end of one the agent began.
    pub(super) fn has(&self, turn: TurnRef) -> bool {
        self.turns.get(&turn.session).is_some_and(|open| open.name == turn) || self.is_next(turn)
    }

    pub(super) fn is_next(&self, turn: TurnRef) -> bool {
        self.next.get(&turn.session).is_some_and(|next| next.turn == turn.turn)
    }

    /// Whether one more turn of a session can wait for the end of the one that is open.
    pub(super) fn may_wait(&self, session: u32) -> bool {
        self.turns.get(&session).is_some_and(|open| open.own) && !self.next.contains_key(&session)
    }

    /// Takes the turns that need not wait any more.
    pub(super) fn free(&mut self) -> Vec<StartTurn> {
        self.next
            .extract_if(.., |session, _| !self.turns.contains_key(session))
            .map(|(_, start)| start)
            .collect()
    }

    /// Sessions whose turns wait for their prompt.
    pub(super) fn waiting(&self) -> Vec<u32> {
        self.turns
            .values()
            .filter(|open| open.start.is_some())
            .map(|open| open.name.session)
            .collect()
    }

    /// Name, whether the agent had the prompt, and whether it was interrupted.
    pub(super) fn open_turns(&self) -> Vec<(TurnRef, bool, bool)> {
        self.turns.values().map(|open| (open.name, open.prompted, open.interrupted)).collect()
    }
}

/// A link for the backend that serves it: what is open on it, and how actions are asked for.
#[derive(Debug)]
pub struct LinkContext<'a> {
    link: &'a mut Link,
    out: &'a mut Vec<Action>,
}

impl<'a> LinkContext<'a> {
    pub(super) fn new(link: &'a mut Link, out: &'a mut Vec<Action>) -> Self {
        Self { link, out }
    }

    /// The key of the agent's process.
    #[must_use]
    pub fn proc(&self) -> u32 {
        self.link.proc
    }

    /// The same, if there is one: asked for, or running.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        (self.link.phase != Phase::None).then_some(self.link.proc)
    }

    /// Milliseconds since the link was opened.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.link.now
    }

    /// The agent was greeted: turns and questions that wait may go to it.
    pub fn ready(&mut self) {
        if self.link.phase == Phase::Up {
            self.link.phase = Phase::Ready;
        }
    }

    /// Whether it was, and was not asked to leave since.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.link.phase == Phase::Ready
    }

    /// Whether the agent was asked to leave.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.link.phase == Phase::Leaving
    }

    /// Where to put what there are no words for here.
    pub fn out(&mut self) -> &mut Vec<Action> {
        self.out
    }

    /// Asks the host for something, or tells it.
    pub fn action(&mut self, action: Action) {
        self.out.push(action);
    }

    /// Writes a line to the agent's stdin.
    pub fn say(&mut self, line: &str) {
        self.out.push(write(self.link.proc, format!("{line}\n")));
    }

    /// The turn the agent works on; of several, that of the lowest session.
    #[must_use]
    pub fn turn(&self) -> Option<TurnRef> {
        self.link.turns.values().find(|open| open.prompted).map(|open| open.name)
    }

    /// The open turn of a session, whether the agent knows of it or not.
    #[must_use]
    pub fn turn_of(&self, session: u32) -> Option<TurnRef> {
        self.link.turns.get(&session).map(|open| open.name)
    }

    /// Whether the agent had the prompt of a session's open turn.
    #[must_use]
    pub fn is_prompted(&self, session: u32) -> bool {
        self.link.turns.get(&session).is_some_and(|open| open.prompted)
    }

    /// Whether somebody wants a session's open turn to stop.
    #[must_use]
    pub fn is_interrupted(&self, session: u32) -> bool {
        self.link.turns.get(&session).is_some_and(|open| open.interrupted)
    }

    /// The agent begins a turn by itself; what the host starts in its session meanwhile waits for
    /// its end. None: the session has one, or the agent is not [ready](LinkContext::ready).
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

    /// Tells of a turn.
    pub fn emit(&mut self, turn: TurnRef) -> Emit<'_> {
        Emit::new(turn, self.out)
    }

    /// Returns a line that is a JSON object. Others are told of as unrecognised, blank ones passed
    /// over.
    pub fn object<'l>(&mut self, line: &'l Line) -> Option<Value<'l>> {
        json::object(line, |what, text| self.unrecognised(what, None, text))
    }

    /// Tells of output this parser does not know: in a turn that is open, else in the operator's
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

    /// Ends a turn, if it is open. A failure that an interrupted agent reports counts as the
    /// interruption asked for.
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

    /// Says what became of a steered message.
    pub fn steered(&mut self, message: u32, outcome: SteerOutcome) {
        self.out.push(Action::Steered(Steered { message, outcome }));
    }

    /// Puts a question of the host off until the agent is ready; starts it where there is none.
    pub fn later(&mut self, query: Query) {
        self.link.queries.push(query);
    }

    /// Answers a question of the host.
    pub fn answer(&mut self, query: u32, answer: QueryResult) {
        self.out.push(Action::QueryAnswer(QueryAnswer { query, answer }));
    }

    /// Answers a question of the host with a failure.
    pub fn refuse(&mut self, query: u32, why: Failure) {
        self.answer(query, QueryResult::Failed(why));
    }

    /// Sets a timer; returns its key, for [`Agent::timer`](super::Agent::timer).
    pub fn set_timer(&mut self, after_ms: u32) -> u32 {
        self.link.timers += 1;
        self.out.push(Action::SetTimer(SetTimer { timer: self.link.timers, after_ms }));
        self.link.timers
    }

    /// Asks the agent to go; whatever waits for one by then gets another.
    pub fn restart(&mut self) {
        self.link.leave = true;
    }

    /// Asks the agent to go for good.
    pub fn leave(&mut self) {
        self.link.closing = true;
        self.link.leave = true;
    }

    /// The agent cannot be used: what it works on is lost, everything that waits fails, and it is
    /// stopped. One that leaves is left to it.
    pub fn give_up(&mut self, why: Failure) {
        self.link.useless = Some(why);
    }

    /// Sends the agent a signal. Everything it started is killed two seconds later in any case.
    pub fn stop(&mut self, signal: Signal) {
        self.out.push(Action::Stop(Stop { proc: self.link.proc, signal, grace_ms: 2000 }));
    }
}
