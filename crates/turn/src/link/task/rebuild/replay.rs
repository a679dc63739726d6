//! Replays the recording: passes its entries to the machine and its inputs to the guest, compares the
//! guest's actions with the recorded ones, and keeps the effects that were not performed.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::Replayed;
use super::state::RebuildState;
use crate::link::machine::{LinkEffect, LinkMachine};
use crate::link::reads::FileRead;
use crate::link::senders::ReplySenders;
use crate::link::sessions::LinkSession;
use crate::link::task::effects::stop;
use crate::link::task::io::LinkIo;
use crate::link::task::log::dropped_note;
use crate::link::task::{BATCH, LinkParts};
use crate::link::turns::TurnNames;
use crate::link::{FormerLink, LinkDeps, LinkReport};
use crate::tools::CallKey;
use crate::{Blob, ProcessCommand};
use aetheel_model::agent::{
    Action, AskDecision, AskKey, HostCommand, Input, PromptPart, StartTurn, TimedInput, TurnDone,
    TurnKey, TurnRef,
};
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::{Checkpoint, EntryKind, Guest, Recording, RecordingEntry};

/// How an action of the guest was performed.
#[derive(Clone, Copy)]
struct Performed {
    is_recorded: bool,
    /// Whether a command reached the process, if the action is one.
    was_sent: bool,
}

/// The effects of inputs and notes have no actions that could be missing.
const RECORDED: Performed = Performed { is_recorded: true, was_sent: true };

/// Replays a recording to a new machine and a fresh guest.
pub(in crate::link::task) struct Replay {
    deps: LinkDeps,
    recording: Recording,
    guest: Box<dyn Guest>,
    machine: LinkMachine,
    io: LinkIo,
    replies: ReplySenders,
    /// The inputs for the next call into the guest.
    inputs: Vec<TimedInput>,
    notes: RebuildState,
}

impl Replay {
    pub(in crate::link::task) fn new(parts: LinkParts, guest: Box<dyn Guest>) -> Self {
        let LinkParts { deps, recording, machine, io, replies } = parts;
        let (inputs, notes) = (Vec::new(), RebuildState::default());
        Self { deps, recording, guest, machine, io, replies, inputs, notes }
    }

    /// Returns the parts of the link, and the guest.
    pub(in crate::link::task) fn into_parts(self) -> (LinkParts, Box<dyn Guest>) {
        let Self { deps, recording, guest, machine, io, replies, .. } = self;
        (LinkParts { deps, recording, machine, io, replies }, guest)
    }

    /// Replays a part of the recording.
    ///
    /// # Errors
    /// [`RebuildError`]. If it [allows another attempt](RebuildError::allows_another_attempt),
    /// nothing was changed.
    pub(in crate::link::task) async fn run(
        &mut self,
        former: &FormerLink<'_>,
    ) -> Result<Replayed, RebuildError> {
        self.notes = RebuildState::of(former)?;
        let FormerLink { tail, keepsake, .. } = former;
        if let Some(folder) = &keepsake.folder {
            self.io.files.take_over(folder).map_err(RebuildError::Folder)?;
        }
        self.io.body_sources.take_over(keepsake.secrets.clone());
        if let Some(checkpoint) = &tail.checkpoint {
            self.notes.start_from(checkpoint)?;
            self.load_checkpoint(checkpoint).await?;
            for process in checkpoint.processes.iter().filter(|process| process.running) {
                let listens = keepsake.endpoints.contains_key(&process.proc);
                self.machine.processes.restore(process.proc, listens);
            }
        }
        let last = self.replay_entries(&tail.entries).await?;
        if !self.notes.recorded.expected.is_empty() {
            return Err(RebuildError::Differs);
        }
        if self.machine.closing.is_ending() && self.machine.turns.is_empty() {
            return Err(RebuildError::Leaving);
        }
        self.notes.processes.check_lines()?;
        Ok(Replayed { notes: std::mem::take(&mut self.notes), last })
    }

    /// Restores the guest and the link from a checkpoint.
    ///
    /// # Errors
    /// [`RebuildError`] if the guest refuses the state, or something of the link is missing.
    async fn load_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), RebuildError> {
        let mut sessions = BTreeMap::new();
        for session in &checkpoint.sessions {
            let lane = session.lane.parse();
            let lane = lane.map_err(|_| RebuildError::Incomplete("a lane is invalid"))?;
            let (cwd, native) = (session.cwd.clone(), session.native.clone());
            let safety = session.safety;
            sessions.insert(session.key, LinkSession { lane, cwd, safety, native });
        }
        if !checkpoint.files.iter().all(|name| self.io.files.restore(name)) {
            return Err(RebuildError::Incomplete("a file of its guest is missing"));
        }
        checkpoint.guest.load_into(&mut *self.guest).await?;
        self.machine.turns.sessions.restore(sessions, checkpoint.last_turn);
        self.machine.replies.skip_to(checkpoint.last_reply);
        let timers = checkpoint.timers.iter().map(|timer| (timer.timer, timer.at_ms as f64));
        self.machine.timers.extend(timers);
        Ok(())
    }

    /// Replays entries. Returns the time of the last one.
    async fn replay_entries(&mut self, entries: &[RecordingEntry]) -> Result<f64, RebuildError> {
        let mut now = 0.0;
        for (at, entry) in entries.iter().enumerate() {
            now = entry.t.max(now);
            match &entry.kind {
                EntryKind::In(input) => {
                    self.inputs.push(TimedInput { at_ms: entry.t, input: input.clone() });
                    let more = entries.get(at + 1).map(|next| &next.kind);
                    if !matches!(more, Some(EntryKind::In(_))) || self.inputs.len() >= BATCH {
                        self.replay_inputs(entry.t).await?;
                    }
                }
                // The files are attached when they are to be read.
                EntryKind::Attached { .. } => {}
                note => self.replay_note(note, entry.t)?,
            }
        }
        Ok(now)
    }

    /// Applies a note of the host.
    fn replay_note(&mut self, note: &EntryKind, t: f64) -> Result<(), RebuildError> {
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
                self.notes.result_recorded(result.call);
                let asked = self.asked_by(result.call);
                self.machine.apply_entry(t, note);
                self.replay_answer(asked, AskDecision::Dismissed, t);
                return Ok(());
            }
            _ => {}
        }
        self.machine.apply_entry(t, note);
        self.replay_effects(RECORDED, t);
        Ok(())
    }

    /// Applies the collected inputs, passes them to the guest, compares its actions with the
    /// recorded ones and applies them.
    async fn replay_inputs(&mut self, t: f64) -> Result<(), RebuildError> {
        let inputs = std::mem::take(&mut self.inputs);
        for timed in &inputs {
            self.replay_input(&timed.input, timed.at_ms).await?;
        }
        self.machine.note_inputs(&inputs);
        self.notes.replayed += inputs.len() as u64;
        let actions = self.guest.handle(inputs).await?;
        self.machine.note_actions(&actions);
        for action in actions {
            let is_recorded = self.notes.recorded.expected.consume(&action)?;
            if !is_recorded {
                self.notes.unrecorded.push(EntryKind::Out(action.clone()));
            }
            if let Action::TurnDone(done) = &action {
                self.replay_reads(done.turn, t).await;
            }
            if let Action::Ask(ask) = &action
                && let Some(ruling) = self.notes.recorded.next_ruling(ask.ask)
            {
                let turn = TurnRef { session: ask.session, turn: ask.turn };
                self.replay_request(turn, LinkReport::Ruled(ruling));
            }
            let was_sent = !is_recorded || self.notes.recorded.was_sent(&action);
            self.machine.apply_action(t, action);
            self.replay_effects(Performed { is_recorded, was_sent }, t);
        }
        Ok(())
    }

    async fn replay_input(&mut self, input: &Input, t: f64) -> Result<(), RebuildError> {
        self.notes.input_recorded(input);
        let mut answered = (None, AskDecision::Dismissed);
        match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                self.replay_turn_start(start, t).await?;
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
        self.replay_answer(answered.0, answered.1, t);
        Ok(())
    }

    async fn replay_turn_start(&mut self, start: &StartTurn, t: f64) -> Result<(), RebuildError> {
        let names = self.machine.turns.next.clone();
        let names = names.ok_or(RebuildError::Incomplete("a turn has no name"))?;
        let (reports, received) = mpsc::unbounded_channel();
        if self.notes.turns.begin(&names, start, received, t) {
            self.io.body_sources.add_blobs(start.turn, blobs(start).await);
            self.replies.add_turn(start.turn, reports);
        }
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

    /// Handles the effects of an entry that answered a question, and reports the answer.
    fn replay_answer(&mut self, asked: Option<(TurnKey, AskKey)>, decision: AskDecision, t: f64) {
        self.replay_effects(RECORDED, t);
        if let Some((turn, ask)) = asked {
            self.replay_report(turn, LinkReport::Answered(ask, decision), t);
        }
    }

    /// Reads the files of a turn whose contents are not recorded, although the guest ended the turn.
    async fn replay_reads(&mut self, turn: TurnKey, t: f64) {
        let unread = self.machine.calls.unread_files(turn);
        let is_unread = |effect: &LinkEffect| matches!(effect, LinkEffect::ReadFile { call, .. } if unread.contains(call));
        for effect in self.notes.take_pending(is_unread) {
            if let LinkEffect::ReadFile { call, file, cwd } = effect {
                self.io.reads.begin(call, file, cwd);
            }
        }
        while !self.machine.calls.unread_files(turn).is_empty() {
            let FileRead { call, result } = self.io.reads.next().await;
            match result {
                Ok(artifact) => {
                    let note = EntryKind::Attached { call, turn, artifact };
                    self.machine.apply_entry(t, &note);
                    self.recording.host(note);
                }
                Err(error) => self.machine.refuse_call(call, error.into()),
            }
            self.replay_effects(RECORDED, t);
        }
    }

    fn replay_effects(&mut self, performed: Performed, t: f64) {
        while let Some(effect) = self.machine.next_effect() {
            self.replay_effect(effect, performed, t);
        }
    }

    /// Drops an effect that was performed before the restart, and keeps one that was not.
    fn replay_effect(&mut self, effect: LinkEffect, performed: Performed, t: f64) {
        match effect {
            // Drivers get all reports, because they replay them too.
            LinkEffect::Report(turn, report) => self.replay_report(turn, report, t),
            LinkEffect::Done(done) => self.report_done(done),
            LinkEffect::Perform(action) => self.replay_action(action, performed),
            LinkEffect::ReadFile { call, .. } => {
                let turn = self.machine.calls.get(call).map_or(0, |open| open.turn.turn);
                match self.notes.recorded.attached.remove(&(turn, call)) {
                    Some(artifact) => {
                        let note = EntryKind::Attached { call, turn, artifact };
                        self.machine.apply_entry(t, &note);
                    }
                    None => self.notes.add_pending(effect),
                }
            }
            LinkEffect::Input(_) | LinkEffect::Return { .. } => self.notes.add_pending(effect),
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

    /// Reports the end of a turn.
    fn report_done(&self, done: TurnDone) {
        let (name, version) = (&self.deps.backend.descriptor().name, self.deps.agent_version());
        let baseline = self.deps.host.agents.baselines().get(name, version.as_deref());
        let examined = self.machine.ledger.examine(done.turn, Some(&done), baseline.as_ref());
        self.replies.report(done.turn, LinkReport::Examined(examined));
        self.replies.report(done.turn, LinkReport::Done(done));
    }

    fn replay_action(&mut self, action: Action, performed: Performed) {
        let processes = &mut self.notes.processes;
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
                Err(error) => {
                    self.notes.unrecorded.push(EntryKind::Host(dropped_note("write", &error)))
                }
            },
            Action::CloseStdin(proc) => processes.command(proc, ProcessCommand::CloseStdin),
            Action::Stop(wanted) => processes.command(wanted.proc, stop(&wanted)),
            Action::PutFile(file) if !self.io.files.restore(&file.name) => {
                let _ = self.io.files.put(&file, &mut self.io.body_sources);
            }
            Action::Http(request) => drop(self.notes.requests.insert(request.request)),
            Action::OpenStream(open) => drop(self.notes.streams.insert(open.stream)),
            // The file exists, or the end of the stream is a recorded input.
            _ => {}
        }
    }

    fn replay_report(&mut self, turn: TurnKey, report: LinkReport, t: f64) {
        self.notes.turns.reported(turn, &report, t);
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
