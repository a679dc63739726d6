//! Replays the recording: applies its inputs to the link, passes them to the guest, and compares the
//! guest's actions with the recorded ones.

use tokio::sync::mpsc;

use super::state::RebuildState;
use super::turns::TurnNames;
use crate::link::LinkReport;
use crate::link::task::LinkTask;
use crate::link::task::actions::stop;
use crate::link::task::log::dropped_note;
use crate::link::turns::OpenTurn;
use crate::{Blob, ProcessCommand};
use aetheel_model::agent::{
    Action, AskDecision, HostCommand, Input, PromptPart, StartTurn, ToolRequest, ToolResult,
    TurnRef,
};
use aetheel_recording::EntryKind;
use aetheel_recording::comparison::RebuildError;

impl LinkTask {
    /// Applies an input of the recording to the state of the link, except for its guest.
    pub(super) async fn apply_input(
        &mut self,
        notes: &mut RebuildState,
        input: &Input,
        t: f64,
    ) -> Result<(), RebuildError> {
        match input {
            Input::Command(command) => self.apply_command(notes, command, t).await?,
            Input::Spawned(spawned) => notes.processes.started(spawned.proc),
            Input::SpawnFailed(failed) => notes.processes.failed(failed.proc),
            Input::Line(line) => {
                notes.processes.line(line.proc);
                self.count_output(line.text.len() as u64 + 1);
            }
            Input::Exited(exited) => {
                notes.processes.ended(exited.proc);
                self.report_exit(exited.how, &exited.stderr_tail);
            }
            Input::HttpResponse(response) => {
                notes.requests.remove(&response.request);
                self.count_output(response.body.len() as u64);
            }
            Input::HttpFailed(failed) => drop(notes.requests.remove(&failed.request)),
            Input::StreamEvent(event) => self.count_output(event.data.len() as u64),
            Input::StreamClosed(closed) => drop(notes.streams.remove(&closed.stream)),
            Input::StreamOpened(_) => {}
            Input::Timer(timer) => drop(notes.timers.remove(timer)),
            Input::ToolResult(result) => self.restore_result(notes, result, t),
        }
        Ok(())
    }

    /// Opens a call that was recorded, and attaches its recorded file.
    pub(super) fn restore_call(&mut self, notes: &mut RebuildState, request: &ToolRequest, t: f64) {
        if let Ok(Some(ask)) = self.open_call(request) {
            notes.turns.ask(request.turn, ask, t);
        }
        if let Some(artifact) = notes.recorded.attached.remove(&(request.turn, request.call)) {
            self.attach(request.call, artifact);
        }
    }

    /// Ends a call whose result was recorded.
    pub(super) fn restore_result(&mut self, notes: &mut RebuildState, result: &ToolResult, t: f64) {
        self.show_call(result);
        if let Some(ask) = self.calls.close(result.call) {
            // The audience needs the decision only for questions of the guest.
            self.turns.close_ask_as_recorded(ask, AskDecision::Dismissed);
            notes.turns.answered(ask, t);
        }
    }

    async fn apply_command(
        &mut self,
        notes: &mut RebuildState,
        command: &HostCommand,
        t: f64,
    ) -> Result<(), RebuildError> {
        match command {
            HostCommand::StartTurn(start) => self.apply_turn_start(notes, start, t).await?,
            HostCommand::Interrupt(turn) => {
                if self.is_one_shot() {
                    self.closing.interrupt();
                }
                // Does nothing if the turn has already ended.
                let _ = self.turns.report(*turn, LinkReport::Stopping);
            }
            HostCommand::Answer(answer) => {
                let decision = answer.decision.clone();
                self.turns.close_ask_as_recorded(answer.ask, decision);
                notes.turns.answered(answer.ask, t);
            }
            HostCommand::Steer(steer) => {
                self.replies.skip();
                let turn = TurnRef { session: steer.session, turn: steer.turn };
                let _ = self.turns.report(turn, LinkReport::Steered);
            }
            HostCommand::Query(_) => self.replies.skip(),
            HostCommand::CloseSession(session) => {
                self.turns.sessions.close(*session);
                self.calls.session_closes(*session);
            }
            HostCommand::Shutdown => return Err(RebuildError::Leaving),
        }
        Ok(())
    }

    async fn apply_turn_start(
        &mut self,
        notes: &mut RebuildState,
        start: &StartTurn,
        t: f64,
    ) -> Result<(), RebuildError> {
        let names = notes.turns.take_names()?;
        let turn = TurnRef { session: start.session, turn: start.turn };
        let (reports, received) = mpsc::unbounded_channel();
        if notes.turns.begin(&names, start, received, t) {
            self.body_sources.add_blobs(turn.turn, blobs(start).await);
        }
        let TurnNames { id, event, lane } = names;
        self.open_turn(OpenTurn { turn, id, event, reports, done: false }, lane, start);
        Ok(())
    }

    /// Passes the collected inputs to the guest, compares its actions with the recorded ones and
    /// applies them to the state of the link.
    pub(super) async fn replay_inputs(
        &mut self,
        notes: &mut RebuildState,
        t: f64,
    ) -> Result<(), RebuildError> {
        let inputs = std::mem::take(&mut self.inputs);
        self.ledger.inputs(inputs.iter().map(|timed| &timed.input));
        let guest = self.guest.as_mut().map_err(|failure| failure.clone())?;
        notes.replayed += inputs.len() as u64;
        let actions = guest.handle(inputs).await?;
        self.ledger.actions(&actions);
        for action in actions {
            let is_recorded = notes.recorded.expected.consume(&action)?;
            if !is_recorded {
                notes.unrecorded.push(EntryKind::Out(action.clone()));
            }
            self.apply_replayed_action(notes, action, is_recorded, t).await;
        }
        // The inputs that result from these actions are in the recording.
        self.inputs.clear();
        Ok(())
    }

    async fn apply_replayed_action(
        &mut self,
        notes: &mut RebuildState,
        action: Action,
        is_recorded: bool,
        t: f64,
    ) {
        let was_sent = !is_recorded || notes.recorded.was_sent(&action);
        let processes = &mut notes.processes;
        match action {
            Action::Spawn(spawn) => processes.pending_spawns.push(spawn),
            Action::Write(_) | Action::CloseStdin(_) | Action::Stop(_) if !was_sent => {}
            Action::Write(write) if is_recorded => {
                // The body of one that was sent may not be available any more.
                if processes.is_pending(write.proc)
                    && let Ok(bytes) = self.body_sources.body(&write.body)
                {
                    processes.pending_commands.push((write.proc, ProcessCommand::Write(bytes)));
                }
            }
            Action::Write(write) => match self.body_sources.body(&write.body) {
                Ok(bytes) => processes.command(write.proc, ProcessCommand::Write(bytes)),
                Err(error) => notes.unrecorded.push(EntryKind::Host(dropped_note("write", &error))),
            },
            Action::CloseStdin(proc) => processes.command(proc, ProcessCommand::CloseStdin),
            Action::Stop(wanted) => processes.command(wanted.proc, stop(&wanted)),
            Action::PutFile(file) => {
                if !self.files.restore(&file.name) {
                    let _ = self.files.put(&file, &mut self.body_sources);
                }
            }
            Action::Http(request) => drop(notes.requests.insert(request.request)),
            Action::OpenStream(open) => drop(notes.streams.insert(open.stream)),
            // The end of the stream is a recorded input.
            Action::CloseStream(_) => {}
            Action::SetTimer(timer) => {
                notes.timers.insert(timer.timer, t + f64::from(timer.after_ms));
            }
            Action::CancelTimer(timer) => drop(notes.timers.remove(&timer)),
            Action::ToolRequest(request) => self.restore_call(notes, &request, t),
            other => {
                match &other {
                    Action::TurnDone(done) => self.finish_files(done.turn).await,
                    Action::Ask(ask) => {
                        notes.turns.ask(ask.turn, ask.ask, t);
                        if let Some(ruling) = notes.recorded.next_ruling(ask.ask) {
                            let turn = TurnRef { session: ask.session, turn: ask.turn };
                            // Fails only if the question is not asked either.
                            let _ = self.turns.report(turn, LinkReport::Ruled(ruling));
                        }
                    }
                    Action::AskWithdrawn(ask) => notes.turns.answered(*ask, t),
                    Action::Event(event) => {
                        let turn = TurnRef { session: event.session, turn: event.turn };
                        let ago_ms = (self.recording.now() - t).max(0.0) as i64;
                        let at_ms = jiff::Timestamp::now().as_millisecond() - ago_ms;
                        // Fails only if the event is not reported either.
                        let _ = self.turns.report(turn, LinkReport::Replayed(at_ms));
                    }
                    _ => {}
                }
                self.apply(other).await;
            }
        }
    }
}

/// Reads the contents of a turn's files from the paths at which they were stored for the agent.
async fn blobs(start: &StartTurn) -> Vec<Blob> {
    let parts = start.parts.clone();
    let attachment = |part: &PromptPart| match part {
        PromptPart::Image(file) | PromptPart::File(file) => Blob::stored(file),
        PromptPart::Text(_) => None,
    };
    let read = move || parts.iter().filter_map(attachment).collect();
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}
