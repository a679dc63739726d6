//! A conversation with a long-lived Claude Code: stream-json in both directions, with the control
//! protocol.
//!
//! [`turn`] determines the outcome of a turn, [`asks`] handles questions to users, and [`process`]
//! tracks the settings of the process. The SDK runs the process, and [`crate::stream`] reads the
//! output, as in one-shot runs. [`host_tools`] offers the tools of the host.
//!
//! A turn ends when Claude Code reports that it is idle, because one turn can have several results
//! and one result can answer several messages. A version that never reports its state ends the turn
//! with its result, after a delay if something works in the background or messages were added to
//! the turn.
//!
//! The process is restarted, between turns and with `--resume`, for settings that only flags can
//! change (system prompt, tools, limit of turns), for other tools of the host, and for a turn with fewer rights than one in
//! which something was allowed "always": the process cannot forget that, and it must not apply at a
//! lower safety level or in plan mode. Between turns a conversation can move to another instance
//! ([`saved`]).
//!
//! Tested in `tests/live` (`turns.rs`, `asks.rs`, `settings.rs`, `moves.rs`, and with disturbed
//! output `disturbed.rs`).

mod asks;
mod host_tools;
mod lines;
mod process;
mod saved;
mod turn;

use std::collections::BTreeSet;

use aetheel_backend_sdk::live::{self, Agent, Asks, LinkContext, Step};
use aetheel_backend_sdk::one_shot::{Agent as _, INTERRUPT_GRACE_MS};
use aetheel_backend_sdk::wit::{
    Action, Answer, Exited, Failure, FailureKind, Line, Outcome, Pipe, Query, QueryKind,
    QueryResult, Spawn, StartTurn, Steer, SteerOutcome, ToolResult, TurnRef, Write,
};
use aetheel_backend_sdk::{Grants, TurnResult, failure, without_result};

use self::asks::Open;
use self::host_tools::Calls;
use self::process::Process;
use self::turn::Turn;
use crate::stream::Claude;
use crate::{plan, prompt};

/// The backend with one process per conversation.
pub type Live = live::Live<Conversation>;

/// A conversation of the host, served by one process of Claude Code.
#[derive(Debug, Default)]
pub struct Conversation {
    session: Option<u32>,
    /// Claude Code's id of the session.
    native: Option<String>,
    claude: Claude,
    process: Process,
    /// The open turn, with or without its prompt.
    turn: Option<Turn>,
    asks: Asks<Open>,
    calls: Calls,
    /// Permissions granted for the session. A restarted process does not know them.
    granted: Grants<String>,
    /// Ids of the work in the background.
    background: BTreeSet<String>,
    /// Delays the end of a turn that has a result, if the agent does not report when it is idle and
    /// more output may follow.
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
        // The process knows the revoked permissions and cannot forget them.
        self.process.stale |= self.granted.begin(&start.settings);
        self.claude
            .begin(self.native.clone().or_else(|| start.native_id.clone().filter(|_| !start.fork)));
        self.turn = Some(Turn::from_host(name(start)));
        Ok(())
    }

    fn launch(
        &mut self,
        start: Option<&StartTurn>,
        context: &mut LinkContext,
    ) -> Result<Spawn, Failure> {
        let hello = self.process.begin(start);
        let Some(start) = start else { return Ok(plan::probe(hello)) };
        let known = self.native.clone().map(|id| (id, false));
        let resume = known.or_else(|| start.native_id.clone().map(|id| (id, start.fork)));
        self.claude.restarted(resume.is_some());
        plan::live(resume, start, hello, &mut context.emit(name(start)))
    }

    /// The process is ready once it answers `initialize`.
    fn spawned(&mut self, agent_version: Option<String>, _: &mut LinkContext) {
        self.process.version = agent_version;
    }

    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        if self.process.is_changing() {
            return Step::Wait;
        }
        if !self.process.suits(start) {
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
        self.turn.iter_mut().for_each(Turn::set_prompted);
        Step::Prompted
    }

    fn line(&mut self, line: Line, context: &mut LinkContext) {
        if line.pipe == Pipe::Stdout {
            self.handle_line(&line, context);
        }
    }

    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        self.asks.close(turn.session);
        self.end_calls(context);
        let otherwise =
            if context.is_interrupted(turn.session) { Outcome::Interrupted } else { outcome };
        let result = match self.turn.take() {
            Some(turn) => turn.done(otherwise),
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
        self.send_decision(answer, context);
    }

    fn tool_result(&mut self, result: ToolResult, context: &mut LinkContext) {
        self.send_result(&result, context);
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
            QueryKind::Health => self.process.check_health(key, context),
            _ => {
                return context.refuse(
                    key,
                    failure(FailureKind::Unsupported, "Claude Code does not support this query"),
                );
            }
        }
        if self.process.is_probe() {
            context.restart();
        }
    }

    fn forget(&mut self, why: &Failure, context: &mut LinkContext) {
        self.linger = None;
        self.calls.clear();
        self.background.clear();
        for query in self.process.take_unanswered() {
            context.refuse(query, why.clone());
        }
    }

    fn lost(&mut self, exited: &Exited, prompted: bool, _: Failure) -> Outcome {
        match without_result(exited, |stderr| self.claude.failure(stderr)) {
            // The turn had begun, so the exit is a crash, whatever the message is.
            Outcome::Failed(failure) if prompted && failure.kind == FailureKind::Other => {
                Outcome::Lost(Failure { kind: FailureKind::Crashed, ..failure })
            }
            outcome => outcome,
        }
    }

    fn timer(&mut self, timer: u32, context: &mut LinkContext) {
        if self.linger.take_if(|set| *set == timer).is_some() {
            self.handle_idle(context);
        }
    }

    fn save(&self, proc: u32) -> Option<String> {
        self.save_state(proc)
    }

    fn load(&mut self, state: &str, saved_by: &str) -> Result<u32, String> {
        let (taken, proc) = Self::restore(state).ok_or_else(|| {
            format!("the state saved by version {saved_by} has an unknown format")
        })?;
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
        turn.steered = true;
        let body = prompt::message(&steer.parts, Some(&steer.fresh_id));
        context.action(Action::Write(Write { proc: context.proc(), body }));
        SteerOutcome::Injected
    }
}

fn name(start: &StartTurn) -> TurnRef {
    TurnRef { session: start.session, turn: start.turn }
}
