//! Applies the actions of the guest.

use super::{LinkEffect, LinkMachine};
use crate::link::action_error::ActionError;
use crate::link::calls::HOST_ASK;
use crate::link::{LinkReport, QueryReply};
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, Ask, AskAnswer, AskDecision, HostCommand, Input,
    SessionReady, Spawn, SpawnFailed, TurnDone, TurnOutcome, TurnRef,
};
use aetheel_model::plain::with_causes;

impl LinkMachine {
    /// Applies an action of the guest.
    pub(in crate::link) fn apply_action(&mut self, now: f64, action: Action) {
        match action {
            Action::Spawn(spawn) => self.spawn(spawn),
            Action::Write(_)
            | Action::CloseStdin(_)
            | Action::Stop(_)
            | Action::PutFile(_)
            | Action::Http(_)
            | Action::OpenStream(_)
            | Action::CloseStream(_) => {
                self.processes.acted(&action);
                self.turns.effects.push(LinkEffect::Perform(action));
            }
            Action::SetTimer(timer) => {
                self.timers.insert(timer.timer, now + f64::from(timer.after_ms));
            }
            Action::CancelTimer(timer) => drop(self.timers.remove(&timer)),
            Action::SessionReady(ready) => self.session_ready(ready),
            Action::Event(event) => self.event(event),
            Action::Ask(ask) => self.ask(ask),
            Action::AskWithdrawn(ask) => {
                if self.calls.asking(ask).is_none() {
                    self.turns.withdraw(ask);
                }
            }
            Action::ToolRequest(request) => {
                self.calls.begin(&request, &mut self.turns);
            }
            Action::TurnDone(done) => self.turn_done(now, done),
            Action::Steered(steered) => {
                self.turns.effects.push(LinkEffect::Steered(steered.message, steered.outcome));
            }
            Action::QueryAnswer(answer) => {
                let native = self.replies.end_query(answer.query);
                let reply = QueryReply { result: answer.answer, native };
                self.turns.effects.push(LinkEffect::Answered(answer.query, reply));
            }
            Action::TurnBegun(turn) => self.turns.begin_unsolicited(now, turn),
            Action::Diagnostic(line) => {
                self.turns.effects.push(LinkEffect::Diagnostic(line.level, line.text));
            }
        }
    }

    fn spawn(&mut self, spawn: Spawn) {
        let refusal = match self.processes.start(spawn.proc, spawn.listens) {
            Ok(()) if self.closing.is_ending() => {
                self.processes.failed(spawn.proc);
                ActionError::LinkEnding
            }
            Ok(()) => return self.turns.effects.push(LinkEffect::Perform(Action::Spawn(spawn))),
            Err(refusal) => refusal,
        };
        let (proc, message) = (spawn.proc, with_causes(&refusal));
        let failed = SpawnFailed { proc, message, not_found: false };
        self.turns.effects.push(LinkEffect::Input(Input::SpawnFailed(failed)));
    }

    fn session_ready(&mut self, ready: SessionReady) {
        self.turns.sessions.set_native(ready.session, &ready.native_id);
        match self.turns.of_session(ready.session).map(|open| open.turn.turn) {
            Some(turn) => self.turns.effects.report(turn, LinkReport::Session(ready)),
            // Some agents continue under another id after a session was compacted.
            None => {
                if !self.replies.session_ready(ready) {
                    self.turns.effects.dropped("session-ready", ActionError::NoOpenTurn);
                }
            }
        }
    }

    fn event(&mut self, event: AgentEvent) {
        if let Some(unknown) = event.kind.unrecognised() {
            self.turns.effects.push(LinkEffect::Unknown(unknown.clone()));
        } else if let AgentEventKind::Artifact(_) = event.kind {
            self.calls.file_reported(event.turn);
        }
        let turn = TurnRef { session: event.session, turn: event.turn };
        self.turns.report(turn, "event", LinkReport::Event(event.kind));
    }

    fn ask(&mut self, ask: Ask) {
        let turn = TurnRef { session: ask.session, turn: ask.turn };
        if ask.ask < HOST_ASK && self.turns.ask(&ask) {
            return self.turns.report(turn, "ask", LinkReport::Ask(ask));
        }
        // The question cannot be asked, and the agent must not wait for it.
        let reason = match self.turns.contains(turn) {
            true => ActionError::AskKey(ask.ask),
            false => ActionError::TurnNotOpen(turn),
        };
        self.turns.effects.dropped("ask", reason);
        let answer = AskAnswer { ask: ask.ask, decision: AskDecision::Dismissed };
        self.turns.effects.push(LinkEffect::Input(Input::Command(HostCommand::Answer(answer))));
    }

    fn turn_done(&mut self, now: f64, done: TurnDone) {
        let turn = TurnRef { session: done.session, turn: done.turn };
        if self.turns.check_running(turn).is_ok() {
            self.examine(turn.turn, Some(&done));
            if done.outcome == TurnOutcome::Completed {
                self.turns.effects.push(LinkEffect::ShowMissingTools(turn));
            }
            self.turns.effects.report(turn.turn, LinkReport::Done(done));
        } else {
            // A turn that the agent began by itself, or an error.
            self.turns.report(turn, "turn-done", LinkReport::Done(done));
        }
        self.turns.set_done(turn);
        self.calls.end(turn.turn, &mut self.turns);
        if self.settings.is_one_shot && self.turns.running().is_empty() {
            self.closing.await_exit(now);
        }
    }
}
