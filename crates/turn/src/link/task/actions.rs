//! Calls the guest and performs its actions.

use std::time::Duration;

use tokio::time::Instant;

use super::LinkTask;
use crate::ProcessCommand;
use crate::link::action_error::ActionError;
use crate::link::calls::HOST_ASK;
use crate::link::{LinkReport, UnknownOutput};
use aetheel_model::agent::{
    Action, AgentEventKind, Ask, AskAnswer, AskDecision, HostCommand, Input, ProcKey, StopProcess,
    TurnOutcome, TurnRef, Unrecognised,
};
use aetheel_model::plain::with_causes;
use aetheel_recording::{EntryKind, GuestFailure};

/// Maximum number of consecutive calls into a guest without waiting for an event in between.
const CALLS: u32 = 1_000;
/// Maximum grace period that a guest may request, in milliseconds.
const GRACE_MS_LIMIT: u32 = 10_000;

impl LinkTask {
    /// Passes the collected inputs to the guest and performs its actions. Without a guest, the
    /// inputs are only recorded.
    pub(super) async fn call_guest(&mut self) {
        let inputs = std::mem::take(&mut self.inputs);
        self.checkpoints.add_inputs(inputs.len() as u64);
        for timed in &inputs {
            self.recording.input(timed);
            if let Input::ToolResult(result) = &timed.input {
                self.calls.close(result.call);
            }
        }
        self.inputs_recorded(&inputs);
        self.ledger.inputs(inputs.iter().map(|timed| &timed.input));
        let interrupting = inputs
            .iter()
            .any(|input| matches!(input.input, Input::Command(HostCommand::Interrupt(_))));
        let Ok(guest) = self.guest.as_mut() else { return };
        match guest.handle(inputs).await {
            Ok(actions) => {
                self.ledger.actions(&actions);
                if interrupting && actions.is_empty() && self.is_one_shot() {
                    self.turns.report_all(|| LinkReport::InterruptIgnored);
                }
                for action in actions {
                    if let Action::TurnDone(done) = &action {
                        self.finish_files(done.turn).await;
                    }
                    self.counters.actions += self.recording.action(&action) as u64;
                    self.apply(action).await;
                }
                if self.turns.is_empty() {
                    self.checkpoints.request_between_turns();
                }
                // The sandbox bounds one call. These limits bound all calls together.
                self.counters.calls += 1;
                let limit = self.deps.host.resources.output;
                if self.counters.calls > CALLS {
                    self.fail(GuestFailure::CutOff(format!(
                        "it was called {CALLS} times in a row and never waited for anything"
                    )));
                } else if self.counters.actions > limit {
                    self.fail(GuestFailure::CutOff(format!(
                        "its actions had more than {limit} bytes in one turn"
                    )));
                }
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Ends the link after a failure of its guest. Processes are killed, except a one-shot agent
    /// whose remaining output is recorded.
    pub(super) fn fail(&mut self, failure: GuestFailure) {
        let kind = failure.kind();
        tracing::warn!(turns = ?self.turns.ids(), kind, %failure, "backend failed; its link ends");
        self.recording.host(EntryKind::Host(failure.to_string()));
        self.guest = Err(failure);
        if self.can_drain() {
            self.drain();
        } else {
            self.processes.kill();
        }
    }

    pub(super) async fn apply(&mut self, action: Action) {
        if acts_outside(&action) {
            self.write_ahead().await;
        }
        match action {
            Action::Spawn(spawn) => self.spawn(spawn).await,
            Action::Write(write) => match self.body_sources.body(&write.body) {
                Ok(bytes) => self.command(write.proc, ProcessCommand::Write(bytes)),
                Err(error) => self.dropped("write", &error),
            },
            Action::CloseStdin(proc) => self.command(proc, ProcessCommand::CloseStdin),
            Action::Stop(wanted) => self.command(wanted.proc, stop(&wanted)),
            Action::PutFile(file) => {
                if let Err(error) = self.files.put(&file, &mut self.body_sources) {
                    self.dropped("put-file", &error);
                }
            }
            Action::Http(_) | Action::OpenStream(_) | Action::CloseStream(_) => {
                self.apply_to_net(action);
            }
            Action::SetTimer(timer) => {
                let at = Instant::now() + Duration::from_millis(timer.after_ms.into());
                self.timers.insert(timer.timer, at);
            }
            Action::CancelTimer(timer) => drop(self.timers.remove(&timer)),
            Action::SessionReady(ready) => {
                self.turns.sessions.set_native(ready.session, &ready.native_id);
                match self.turns.of_session(ready.session) {
                    Some(open) => drop(open.reports.send(LinkReport::Session(ready))),
                    // Some agents continue under another id after a session was compacted.
                    None => {
                        if !self.replies.session_ready(ready) {
                            self.dropped("session-ready", &ActionError::NoOpenTurn);
                        }
                    }
                }
            }
            Action::Event(event) => {
                if let Some(unknown) = event.kind.unrecognised() {
                    self.unknown_output(unknown);
                } else if let AgentEventKind::Artifact(_) = event.kind {
                    self.calls.file_reported(event.turn);
                }
                self.report(
                    TurnRef { session: event.session, turn: event.turn },
                    "event",
                    LinkReport::Event(event.kind),
                );
            }
            Action::Ask(ask) => self.ask(ask),
            Action::AskWithdrawn(ask) => {
                if self.calls.asking(ask).is_none() {
                    self.turns.withdraw(ask);
                }
            }
            Action::ToolRequest(request) => self.tool_request(&request),
            Action::TurnDone(done) => {
                let turn = TurnRef { session: done.session, turn: done.turn };
                let baseline = self.baseline();
                let examined = self.ledger.examine(turn.turn, Some(&done), baseline.as_ref());
                let _ = self.turns.report(turn, LinkReport::Examined(examined));
                if done.outcome == TurnOutcome::Completed {
                    self.show_missing_tools(turn);
                }
                self.report(turn, "turn-done", LinkReport::Done(done));
                self.turns.set_done(turn);
                self.end_calls(turn);
                if self.is_one_shot() && !self.turns.any_running() {
                    self.await_exit();
                }
            }
            Action::Steered(steered) => self.replies.steered(steered.message, steered.outcome),
            Action::QueryAnswer(answer) => self.replies.answered(answer.query, answer.answer),
            Action::TurnBegun(turn) => self.begin_unsolicited(turn),
            Action::Diagnostic(line) => self.diagnostic(line.level, &line.text),
        }
    }

    fn ask(&mut self, ask: Ask) {
        let turn = TurnRef { session: ask.session, turn: ask.turn };
        if ask.ask < HOST_ASK && self.turns.ask(&ask) {
            self.report(turn, "ask", LinkReport::Ask(ask));
        } else {
            // The question cannot be asked, and the agent must not wait for it.
            let reason = match self.turns.contains(turn) {
                true => ActionError::AskKey(ask.ask),
                false => ActionError::TurnNotOpen(turn),
            };
            if !self.rebuilding {
                let reason = with_causes(&reason);
                tracing::warn!(
                    reason,
                    hint = "`aetheel backend check` finds such mistakes",
                    "refused a question of the agent: nobody is asked"
                );
            }
            self.dropped("ask", &reason);
            self.input(Input::Command(HostCommand::Answer(AskAnswer {
                ask: ask.ask,
                decision: AskDecision::Dismissed,
            })));
        }
    }

    fn command(&mut self, proc: ProcKey, command: ProcessCommand) {
        if !self.processes.command(proc, command) {
            self.dropped("process command", &ActionError::NotRunning);
        }
    }

    /// Begins or ends an HTTP request or a stream. The guest gets the result at once if that fails.
    fn apply_to_net(&mut self, action: Action) {
        let limit = self.line_limit();
        let result = match action {
            Action::Http(request) => {
                let listener = self.processes.listener(request.proc);
                self.net.request(request, listener, &mut self.body_sources, limit)
            }
            Action::OpenStream(open) => {
                let listener = self.processes.listener(open.proc);
                self.net.open_stream(&open, listener, &self.body_sources, limit)
            }
            Action::CloseStream(stream) => self.net.close_stream(stream),
            _ => None,
        };
        if let Some(input) = result {
            self.input(input);
        }
    }

    /// Reports output that the backend does not know.
    fn unknown_output(&self, unknown: &Unrecognised) {
        if self.rebuilding {
            return;
        }
        (self.deps.on_unknown)(&UnknownOutput {
            backend: self.name(),
            generation: self.deps.backend.generation(),
            agent_version: self.agent_version.as_deref(),
            link: &self.deps.id,
            unknown,
        });
    }

    /// Sends a report to a turn, or applies it to a turn that the agent began by itself.
    pub(super) fn report(&mut self, turn: TurnRef, what: &str, report: LinkReport) {
        if let Some(transcript) = self.unsolicited.transcript(turn) {
            match report {
                LinkReport::Event(event) => transcript.apply(&event),
                LinkReport::Done(done) => self.end_unsolicited(done),
                _ => {}
            }
        } else if let Err(error) = self.turns.report(turn, report) {
            self.dropped(what, &error);
        }
    }
}

/// Returns whether an action has an effect outside the gateway that must not happen twice.
fn acts_outside(action: &Action) -> bool {
    matches!(
        action,
        Action::Spawn(_)
            | Action::Write(_)
            | Action::CloseStdin(_)
            | Action::Stop(_)
            | Action::Http(_)
            | Action::OpenStream(_)
    )
}

/// Returns the command for a guest's request to stop a process.
pub(super) fn stop(wanted: &StopProcess) -> ProcessCommand {
    let grace = Duration::from_millis(wanted.grace_ms.min(GRACE_MS_LIMIT).into());
    ProcessCommand::Stop { signal: wanted.signal, grace }
}
