//! Replays the recording: passes its entries to the machine and its inputs to the guest, compares the
//! guest's actions with the recorded ones, and keeps the effects that were not performed.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::Replayed;
use super::state::RebuildState;
use crate::link::machine::{LinkEffect, LinkMachine, command_target};
use crate::link::reads::FileRead;
use crate::link::senders::ReplySenders;
use crate::link::sessions::LinkSession;
use crate::link::task::io::LinkIo;
use crate::link::task::log::dropped_note;
use crate::link::task::{BATCH, LinkParts};
use crate::link::{FormerLink, LinkDeps, LinkReport};
use crate::{Blob, SurvivingProcess};
use aetheel_model::agent::{
    Action, HostCommand, Input, PromptPart, StartTurn, TimedInput, TurnKey, TurnRef,
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
            for process in &checkpoint.processes {
                if process.running && self.notes.lacks_commands(process.proc, process.commands) {
                    return Err(RebuildError::Incomplete(
                        "its agent did not receive a command from before the checkpoint",
                    ));
                }
                let listens = keepsake.endpoints.contains_key(&process.proc);
                self.machine.processes.restore(process, listens);
            }
            self.load_checkpoint(checkpoint).await?;
        }
        let last = self.replay_entries(&tail.entries).await?;
        if !self.notes.recorded.expected.is_empty() {
            return Err(RebuildError::Differs);
        }
        if self.machine.closing.is_ending() && self.machine.turns.is_empty() {
            return Err(RebuildError::Leaving);
        }
        let is_incomplete =
            |living: &SurvivingProcess| self.machine.processes.lines(living.proc) < living.recorded;
        if self.notes.surviving.iter().any(is_incomplete) {
            return Err(RebuildError::Incomplete("lines of its agent are missing"));
        }
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
        self.machine.processes.requests.extend(&checkpoint.requests);
        self.machine.processes.streams.extend(&checkpoint.streams);
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
                note => {
                    if let EntryKind::Returned(result) = note {
                        self.notes.result_recorded(result.call);
                    }
                    self.machine.apply_entry(entry.t, note);
                    self.replay_effects(RECORDED, entry.t);
                }
            }
        }
        Ok(now)
    }

    /// Applies the collected inputs, passes them to the guest, compares its actions with the
    /// recorded ones and applies them.
    async fn replay_inputs(&mut self, t: f64) -> Result<(), RebuildError> {
        let inputs = std::mem::take(&mut self.inputs);
        for timed in &inputs {
            self.replay_input(&timed.input, timed.at_ms).await?;
        }
        self.machine.ledger.inputs(inputs.iter().map(|timed| &timed.input));
        self.notes.replayed += inputs.len() as u64;
        let actions = self.guest.handle(inputs).await?;
        self.machine.ledger.actions(&actions);
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
                if self.machine.turns.check_running(turn).is_ok() {
                    self.replies.report(turn.turn, LinkReport::Ruled(ruling));
                }
            }
            let was_sent = !is_recorded || self.notes.recorded.was_sent(&action);
            self.machine.apply_action(t, action);
            self.replay_effects(Performed { is_recorded, was_sent }, t);
        }
        Ok(())
    }

    async fn replay_input(&mut self, input: &Input, t: f64) -> Result<(), RebuildError> {
        self.notes.input_recorded(input);
        match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                self.replay_turn_start(start, t).await?;
            }
            Input::Command(HostCommand::Shutdown) => return Err(RebuildError::Leaving),
            _ => {}
        }
        self.machine.apply_input(t, input);
        self.replay_effects(RECORDED, t);
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
        while let Some(effect) = self.machine.turns.effects.next() {
            self.replay_effect(effect, performed, t);
        }
    }

    /// Drops an effect that was performed before the restart, and keeps one that was not.
    fn replay_effect(&mut self, effect: LinkEffect, performed: Performed, t: f64) {
        match effect {
            // Drivers get all reports, because they replay them too.
            LinkEffect::Report(turn, report) | LinkEffect::Repeat(turn, report) => {
                self.replay_report(turn, report, t);
            }
            LinkEffect::Perform(Action::Spawn(_)) => self.notes.add_pending(effect),
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
            LinkEffect::ShowMissingTools(_)
            | LinkEffect::Note(_)
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

    fn replay_action(&mut self, action: Action, performed: Performed) {
        if let Action::PutFile(file) = &action {
            if !self.io.files.restore(&file.name) {
                let _ = self.io.files.put(file, &mut self.io.body_sources);
            }
            return;
        }
        let Some(proc) = command_target(&action) else { return };
        if !performed.was_sent {
            return self.machine.processes.command_dropped(&action);
        }
        let is_pending = self.notes.lacks_commands(proc, self.machine.processes.commands(proc));
        if performed.is_recorded && !is_pending {
            // The text of one that was sent may not be available any more.
            return;
        }
        match self.io.command(&action) {
            Ok(command) => self.notes.pending_commands.extend(command.filter(|_| is_pending)),
            Err(_) if performed.is_recorded => {}
            Err(error) => {
                self.machine.processes.command_dropped(&action);
                self.notes.unrecorded.push(EntryKind::Host(dropped_note("write", &error)));
            }
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
