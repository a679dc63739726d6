//! Replays the recording: passes its entries to the machine and its inputs to the guest, compares the
//! guest's actions with the recorded ones, and keeps the effects that were not performed.

use tokio::sync::mpsc;

use super::state::RebuildState;
use crate::link::LinkReport;
use crate::link::machine::LinkEffect;
use crate::link::task::LinkTask;
use crate::link::task::effects::stop;
use crate::link::task::log::dropped_note;
use crate::link::turns::TurnNames;
use crate::tools::CallKey;
use crate::{Blob, ProcessCommand};
use aetheel_model::agent::{
    Action, AskDecision, AskKey, HostCommand, Input, PromptPart, StartTurn, TurnKey, TurnRef,
};
use aetheel_recording::EntryKind;
use aetheel_recording::comparison::RebuildError;

/// How an action of the guest was performed.
#[derive(Clone, Copy)]
struct Performed {
    is_recorded: bool,
    /// Whether a command reached the process, if the action is one.
    was_sent: bool,
}

/// The effects of inputs and notes have no actions that could be missing.
const RECORDED: Performed = Performed { is_recorded: true, was_sent: true };

impl LinkTask {
    /// Applies a note of the host.
    pub(super) fn replay_note(
        &mut self,
        notes: &mut RebuildState,
        note: &EntryKind,
        t: f64,
    ) -> Result<(), RebuildError> {
        match note {
            EntryKind::Turn { turn, event, lane, .. } => {
                let lane = lane.parse();
                let lane = lane.map_err(|_| RebuildError::Incomplete("a lane is invalid"))?;
                let names = TurnNames { id: turn.clone(), event: *event, lane };
                self.machine.name_next_turn(names);
            }
            EntryKind::Ending { turn, .. } => {
                if let Some(turn) = self.machine.turns.by_id(turn) {
                    self.io.body_sources.forget_blobs(turn);
                    self.replies.remove_turn(turn);
                }
            }
            EntryKind::Returned(result) => {
                notes.result_recorded(result.call);
                let asked = self.asked_by(result.call);
                self.machine.apply_entry(t, note);
                self.replay_answer(notes, asked, AskDecision::Dismissed, t);
                return Ok(());
            }
            _ => {}
        }
        self.machine.apply_entry(t, note);
        self.replay_effects(notes, RECORDED, t);
        Ok(())
    }

    /// Applies the collected inputs, passes them to the guest, compares its actions with the
    /// recorded ones and applies them.
    pub(super) async fn replay_inputs(
        &mut self,
        notes: &mut RebuildState,
        t: f64,
    ) -> Result<(), RebuildError> {
        let inputs = std::mem::take(&mut self.inputs);
        for timed in &inputs {
            self.replay_input(notes, &timed.input, timed.at_ms).await?;
        }
        self.machine.note_inputs(&inputs);
        let guest = self.guest.as_mut().map_err(|failure| failure.clone())?;
        notes.replayed += inputs.len() as u64;
        let actions = guest.handle(inputs).await?;
        self.machine.note_actions(&actions);
        for action in actions {
            let is_recorded = notes.recorded.expected.consume(&action)?;
            if !is_recorded {
                notes.unrecorded.push(EntryKind::Out(action.clone()));
            }
            if let Action::TurnDone(done) = &action {
                self.replay_reads(notes, done.turn, t).await;
            }
            if let Action::Ask(ask) = &action
                && let Some(ruling) = notes.recorded.next_ruling(ask.ask)
            {
                let turn = TurnRef { session: ask.session, turn: ask.turn };
                self.replay_request(turn, LinkReport::Ruled(ruling));
            }
            let was_sent = !is_recorded || notes.recorded.was_sent(&action);
            self.machine.apply_action(t, action);
            self.replay_effects(notes, Performed { is_recorded, was_sent }, t);
        }
        Ok(())
    }

    async fn replay_input(
        &mut self,
        notes: &mut RebuildState,
        input: &Input,
        t: f64,
    ) -> Result<(), RebuildError> {
        notes.input_recorded(input);
        let mut answered = (None, AskDecision::Dismissed);
        match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                self.replay_turn_start(notes, start, t).await?;
            }
            Input::Command(HostCommand::Answer(answer)) => {
                let open = self.machine.turns.open_ask(answer.ask);
                answered = (open.map(|open| (open.turn, answer.ask)), answer.decision.clone());
            }
            // The audience needs the decision only for questions of the guest.
            Input::ToolResult(result) => answered.0 = self.asked_by(result.call),
            Input::Command(HostCommand::Interrupt(turn)) => {
                self.replay_request(*turn, LinkReport::Stopping);
            }
            Input::Command(HostCommand::Steer(steer)) => {
                let turn = TurnRef { session: steer.session, turn: steer.turn };
                self.replay_request(turn, LinkReport::Steered);
            }
            Input::Command(HostCommand::Shutdown) => return Err(RebuildError::Leaving),
            _ => {}
        }
        self.machine.apply_input(t, input);
        self.replay_answer(notes, answered.0, answered.1, t);
        Ok(())
    }

    async fn replay_turn_start(
        &mut self,
        notes: &mut RebuildState,
        start: &StartTurn,
        t: f64,
    ) -> Result<(), RebuildError> {
        let names = self.machine.turns.next.clone();
        let names = names.ok_or(RebuildError::Incomplete("a turn has no name"))?;
        let (reports, received) = mpsc::unbounded_channel();
        if notes.turns.begin(&names, start, received, t) {
            self.io.body_sources.add_blobs(start.turn, blobs(start).await);
            self.replies.add_turn(start.turn, reports);
        }
        self.turn_begins();
        Ok(())
    }

    /// Reports a recorded request of a driver to a turn that the guest has not ended.
    fn replay_request(&self, turn: TurnRef, report: LinkReport) {
        if self.machine.turns.check_running(turn).is_ok() {
            self.replies.report(turn.turn, report);
        }
    }

    /// Returns the open question of a call, with its turn.
    fn asked_by(&self, call: CallKey) -> Option<(TurnKey, AskKey)> {
        let open = self.machine.calls.get(call)?;
        Some((open.turn.turn, open.ask()?))
    }

    /// Carries out the effects of an entry that answered a question, and reports the answer.
    fn replay_answer(
        &mut self,
        notes: &mut RebuildState,
        asked: Option<(TurnKey, AskKey)>,
        decision: AskDecision,
        t: f64,
    ) {
        self.replay_effects(notes, RECORDED, t);
        if let Some((turn, ask)) = asked {
            self.replay_report(notes, turn, LinkReport::Answered(ask, decision), t);
        }
    }

    /// Reads the files of a turn whose contents are not recorded, although the guest ended the turn.
    async fn replay_reads(&mut self, notes: &mut RebuildState, turn: TurnKey, t: f64) {
        let unread = self.machine.calls.unread_files(turn);
        let is_unread = |effect: &LinkEffect| matches!(effect, LinkEffect::ReadFile { call, .. } if unread.contains(call));
        for effect in notes.take_pending(is_unread) {
            self.perform(effect).await;
        }
        while !self.machine.calls.unread_files(turn).is_empty() {
            let read = self.io.reads.next().await;
            self.file_read(read);
            self.replay_effects(notes, RECORDED, t);
        }
    }

    fn replay_effects(&mut self, notes: &mut RebuildState, performed: Performed, t: f64) {
        while let Some(effect) = self.machine.next_effect() {
            self.replay_effect(notes, effect, performed, t);
        }
    }

    /// Drops an effect that was performed before the restart, and keeps one that was not.
    fn replay_effect(
        &mut self,
        notes: &mut RebuildState,
        effect: LinkEffect,
        performed: Performed,
        t: f64,
    ) {
        match effect {
            // Drivers get all reports, because they replay them too.
            LinkEffect::Report(turn, report) => self.replay_report(notes, turn, report, t),
            LinkEffect::Done(done) => self.report_done(done, false),
            LinkEffect::Perform(action) => self.replay_action(notes, action, performed),
            LinkEffect::ReadFile { call, .. } => {
                let turn = self.machine.calls.get(call).map_or(0, |open| open.turn.turn);
                match notes.recorded.attached.remove(&(turn, call)) {
                    Some(artifact) => {
                        let note = EntryKind::Attached { call, turn, artifact };
                        self.machine.apply_entry(t, &note);
                    }
                    None => notes.add_pending(effect),
                }
            }
            LinkEffect::Input(_) | LinkEffect::Return { .. } => notes.add_pending(effect),
            LinkEffect::Note(_)
            | LinkEffect::Steered(..)
            | LinkEffect::Answered(..)
            | LinkEffect::Unsolicited { .. }
            | LinkEffect::TooManyUnsolicited(_)
            | LinkEffect::Dropped(..)
            | LinkEffect::Diagnostic(..)
            | LinkEffect::Unknown(_)
            | LinkEffect::Terminate(_)
            | LinkEffect::Kill => {}
        }
    }

    fn replay_action(&mut self, notes: &mut RebuildState, action: Action, performed: Performed) {
        let processes = &mut notes.processes;
        match action {
            Action::Spawn(spawn) => processes.pending_spawns.push(spawn),
            Action::Write(_) | Action::CloseStdin(_) | Action::Stop(_) if !performed.was_sent => {}
            Action::Write(write) if performed.is_recorded => {
                // The body of one that was sent may not be available any more.
                if processes.is_pending(write.proc)
                    && let Ok(bytes) = self.io.body_sources.body(&write.body)
                {
                    processes.pending_commands.push((write.proc, ProcessCommand::Write(bytes)));
                }
            }
            Action::Write(write) => match self.io.body_sources.body(&write.body) {
                Ok(bytes) => processes.command(write.proc, ProcessCommand::Write(bytes)),
                Err(error) => notes.unrecorded.push(EntryKind::Host(dropped_note("write", &error))),
            },
            Action::CloseStdin(proc) => processes.command(proc, ProcessCommand::CloseStdin),
            Action::Stop(wanted) => processes.command(wanted.proc, stop(&wanted)),
            Action::PutFile(file) => {
                if !self.io.files.restore(&file.name) {
                    let _ = self.io.files.put(&file, &mut self.io.body_sources);
                }
            }
            Action::Http(request) => drop(notes.requests.insert(request.request)),
            Action::OpenStream(open) => drop(notes.streams.insert(open.stream)),
            // The end of the stream is a recorded input.
            _ => {}
        }
    }

    fn replay_report(
        &mut self,
        notes: &mut RebuildState,
        turn: TurnKey,
        report: LinkReport,
        t: f64,
    ) {
        notes.turns.reported(turn, &report, t);
        if let LinkReport::Event(_) = report {
            let ago_ms = (self.recording.now() - t).max(0.0) as i64;
            let at_ms = jiff::Timestamp::now().as_millisecond() - ago_ms;
            self.replies.report(turn, LinkReport::Replayed(at_ms));
        }
        self.replies.report(turn, report);
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
