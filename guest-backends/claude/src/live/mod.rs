//! A conversation with a Claude Code that lives on: stream-json in and out, with the control
//! protocol.
//!
//! Owns what a turn waits for and what it comes to ([`turn`]), what people are asked ([`asks`]) and
//! what is in force in the process ([`process`]); the process itself is the SDK's, and what the
//! output means is read by [`crate::stream`], as in one-shot runs. A turn ends when Claude Code
//! says that it is idle: one turn can have several results, and several messages one. One that does
//! not say so (it says "running" before it does anything) ends its turn with its result; only where
//! something works in the background, or more was said to it meanwhile, is it waited for what may
//! follow. Only what a flag alone can say (system prompt, tools, limit of turns) makes it start the
//! process anew, between turns and with `--resume`; and a turn that may do less than the one in
//! which something was allowed "always": a process does not forget that, so neither it nor this
//! guest answers with it at a lower safety level or in plan mode. Between turns it moves to another
//! instance ([`kept`]). Pinned by `tests/live` (`turns.rs`, `asks.rs`, `settings.rs`, `moves.rs`
//! and, disturbed, `disturbed.rs`).

mod asks;
mod kept;
mod lines;
mod process;
mod turn;

use std::collections::BTreeSet;

use aetheel_backend_sdk::live::{self, Agent, Asks, LinkContext, Step};
use aetheel_backend_sdk::one_shot::{Agent as _, INTERRUPT_GRACE_MS};
use aetheel_backend_sdk::wit::{
    Action, Answer, Delivery, Exited, Failure, FailureKind, Line, Outcome, Pipe, Query, QueryKind,
    QueryResult, Spawn, StartTurn, Steer, SteerOutcome, TurnRef, Write,
};
use aetheel_backend_sdk::{Grants, TurnResult, failure, without_result};

use self::asks::Open;
use self::process::Process;
use self::turn::Turn;
use crate::stream::Claude;
use crate::{plan, prompt};

/// The backend with one process for a conversation.
pub type Live = live::Live<Conversation>;

/// A conversation of the host with one process of Claude Code.
#[derive(Debug, Default)]
pub struct Conversation {
    session: Option<u32>,
    /// Claude Code's id of it.
    native: Option<String>,
    claude: Claude,
    process: Process,
    /// The open turn, with its prompt or on the way to it.
    turn: Option<Turn>,
    asks: Asks<Open>,
    /// Sets of permissions allowed for the session: a process that was started anew has forgotten
    /// them.
    granted: Grants<String>,
    /// The work in the background, by the agent's ids.
    background: BTreeSet<String>,
    /// Runs out when there is a result, the agent is not one that says when it is idle, and
    /// something may still speak.
    linger: Option<u32>,
}

impl Agent for Conversation {
    const NAME: &'static str = "Claude Code";
    const GRACE_MS: u32 = INTERRUPT_GRACE_MS;

    fn describe() -> String {
        Claude::describe()
    }

    fn accept(&mut self, start: &StartTurn, _: &mut LinkContext) -> Result<(), Failure> {
        if self.turn.is_some() {
            return Err(failure(
                FailureKind::Unsupported,
                "a conversation with Claude Code has one turn at a time",
            ));
        }
        plan::checked(&start.parts)?;
        let elsewhere =
            self.native.is_some() && start.native_id.is_some() && self.native != start.native_id;
        if self.session.is_some() && (self.session != Some(start.session) || elsewhere) {
            self.native = None;
            self.claude = Claude::default();
            self.granted.clear();
            self.process.stale = true;
        }
        self.session = Some(start.session);
        // The process has been told of what is taken back, and knows no way of forgetting.
        self.process.stale |= self.granted.begin(&start.settings);
        self.claude
            .begin(self.native.clone().or_else(|| start.native_id.clone().filter(|_| !start.fork)));
        self.turn = Some(Turn::wanted(name(start)));
        Ok(())
    }

    fn launch(
        &mut self,
        start: Option<&StartTurn>,
        context: &mut LinkContext,
    ) -> Result<Spawn, Failure> {
        let hello = self.process.begin(start.map(|start| &start.settings));
        let Some(start) = start else { return Ok(plan::probe(hello)) };
        let known = self.native.clone().map(|id| (id, false));
        let resume = known.or_else(|| start.native_id.clone().map(|id| (id, start.fork)));
        self.claude.restarted(resume.is_some());
        plan::live(resume, start, hello, &mut context.emit(name(start)))
    }

    /// It is ready when it answered what it was started with.
    fn spawned(&mut self, agent_version: Option<String>, _: &mut LinkContext) {
        self.process.version = agent_version;
    }

    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        if self.process.is_changing() {
            return Step::Wait;
        }
        if !self.process.suits(&start.settings) {
            return Step::Restart;
        }
        self.process.change(&start.settings, context);
        if self.process.is_changing() {
            return Step::Wait;
        }
        context.action(Action::Write(Write {
            proc: context.proc(),
            body: prompt::message(&start.parts, None),
        }));
        self.turn.iter_mut().for_each(Turn::hand_over);
        Step::Prompted
    }

    fn line(&mut self, line: Line, context: &mut LinkContext) {
        if line.pipe == Pipe::Stdout {
            self.heard(&line, context);
        }
    }

    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        self.asks.close(turn.session);
        let otherwise =
            if context.is_interrupted(turn.session) { Outcome::Interrupted } else { outcome };
        let result = match self.turn.take() {
            Some(told) => told.done(otherwise),
            None => TurnResult { outcome: otherwise, text: None, usage: None },
        };
        context.end(turn, result);
    }

    fn interrupt(&mut self, _: TurnRef, context: &mut LinkContext) {
        if context.is_ready() {
            self.process.interrupt(context);
        }
    }

    fn steer(&mut self, steer: Steer, context: &mut LinkContext) {
        let outcome = self.steered(&steer, context);
        context.steered(steer.message, outcome);
    }

    fn answer(&mut self, answer: Answer, context: &mut LinkContext) {
        self.decided(answer, context);
    }

    fn query(&mut self, query: Query, context: &mut LinkContext) {
        let key = query.query;
        match query.kind {
            QueryKind::Health | QueryKind::Models if !context.is_ready() => {
                return context.later(query);
            }
            QueryKind::Models => {
                context.answer(key, QueryResult::Models(self.process.models.clone()))
            }
            QueryKind::Health if self.process.is_probe() => {
                context.answer(key, self.process.health())
            }
            QueryKind::Health => self.process.sign(key, context),
            _ => {
                return context.refuse(
                    key,
                    failure(FailureKind::Unsupported, "Claude Code has no such thing"),
                );
            }
        }
        if self.process.is_probe() {
            context.restart();
        }
    }

    fn forget(&mut self, why: &Failure, context: &mut LinkContext) {
        self.linger = None;
        self.background.clear();
        for query in self.process.unanswered() {
            context.refuse(query, why.clone());
        }
    }

    fn lost(&mut self, exited: &Exited, prompted: bool, _: Failure) -> Outcome {
        match without_result(exited, |said| self.claude.failure(said)) {
            // It had begun to work: whatever it says, it died of it.
            Outcome::Failed(failure) if prompted && failure.kind == FailureKind::Other => {
                Outcome::Lost(Failure { kind: FailureKind::Crashed, ..failure })
            }
            outcome => outcome,
        }
    }

    fn timer(&mut self, timer: u32, context: &mut LinkContext) {
        if self.linger.take_if(|set| *set == timer).is_some() {
            self.rests(context);
        }
    }

    fn save(&self, proc: u32) -> Option<String> {
        self.kept(proc)
    }

    fn load(&mut self, state: &str, saved_by: &str) -> Result<u32, String> {
        let (taken, proc) = Self::taken_over(state)
            .ok_or_else(|| format!("the state of version {saved_by} has another form"))?;
        *self = taken;
        Ok(proc)
    }
}

impl Conversation {
    fn steered(&mut self, steer: &Steer, context: &mut LinkContext) -> SteerOutcome {
        let at = TurnRef { session: steer.session, turn: steer.turn };
        let works =
            context.is_ready() && context.turn() == Some(at) && !context.is_interrupted(at.session);
        let Some(turn) = self.turn.as_mut().filter(|turn| works && !turn.has_result()) else {
            return SteerOutcome::NotNow;
        };
        if plan::checked(&steer.parts).is_err() {
            return SteerOutcome::Dropped;
        }
        let (priority, outcome) = match steer.delivery {
            Delivery::Steer => ("next", SteerOutcome::Injected),
            Delivery::Queue => ("later", SteerOutcome::Queued),
            Delivery::Replace => ("now", SteerOutcome::Injected),
        };
        turn.replaced |= steer.delivery == Delivery::Replace;
        turn.steered = true;
        let body = prompt::message(&steer.parts, Some((priority, &steer.fresh_id)));
        context.action(Action::Write(Write { proc: context.proc(), body }));
        outcome
    }
}

fn name(start: &StartTurn) -> TurnRef {
    TurnRef { session: start.session, turn: start.turn }
}
