//! Replays the recording: passes its entries to the machine and its inputs to the guest, compares the
//! guest's actions with the recorded ones, and keeps the effects that were not performed.

use super::Rebuilt;
use super::pending::PendingEffects;
use super::recorded::RecordedActions;
use super::turns::RebuiltTurns;
use crate::link::effects::LinkEffect;
use crate::link::machine::LinkMachine;
use crate::link::process_table::command_target;
use crate::link::task::log::dropped_note;
use crate::link::task::{BATCH, LinkTask};
use crate::link::{FormerLink, LinkReport};
use crate::{Blob, ProcessCommand, SurvivingProcess};
use aetheel_model::agent::{
    Action, HostCommand, Input, ProcKey, PromptPart, StartTurn, TurnKey, TurnRef,
};
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::{CheckpointProcess, EntryKind, Guest, GuestFailure, RecordingEntry};

/// How an action of the guest was performed.
#[derive(Clone, Copy)]
struct Performed {
    is_recorded: bool,
    /// Whether a command reached the process, if the action is one.
    was_sent: bool,
}

/// The effects of inputs and notes have no actions that could be missing.
const RECORDED: Performed = Performed { is_recorded: true, was_sent: true };

/// Replays a recording to a new link with a fresh guest.
pub(in crate::link::task) struct Replay {
    pub(in crate::link::task) task: LinkTask,
    recorded: RecordedActions,
    /// The actions of the guest that are not recorded, and notes about them.
    pub(super) unrecorded: Vec<EntryKind>,
    pub(super) turns: RebuiltTurns,
    /// The processes that outlived the gateway.
    pub(super) surviving: Vec<SurvivingProcess>,
    /// Commands that a process did not receive.
    pub(super) pending_commands: Vec<(ProcKey, ProcessCommand)>,
    pub(super) pending: PendingEffects,
}

impl Replay {
    pub(in crate::link::task) fn new(task: LinkTask) -> Self {
        Self {
            task,
            recorded: RecordedActions::default(),
            unrecorded: Vec::new(),
            turns: RebuiltTurns::default(),
            surviving: Vec::new(),
            pending_commands: Vec::new(),
            pending: PendingEffects::default(),
        }
    }

    /// Replays a part of the recording, and continues the link with its processes and turns.
    ///
    /// # Errors
    /// [`RebuildError`]. If it [allows another attempt](RebuildError::allows_another_attempt),
    /// nothing was changed.
    pub(in crate::link::task) async fn run(
        &mut self,
        former: &FormerLink<'_>,
    ) -> Result<Rebuilt, RebuildError> {
        let FormerLink { tail, keepsake, survivor } = former;
        self.recorded = RecordedActions::of(&tail.entries)?;
        self.turns = RebuiltTurns::of(&tail.entries);
        self.surviving = survivor.processes.clone();
        if let Some(folder) = &keepsake.folder {
            self.task.io.files.take_over(folder).map_err(RebuildError::Folder)?;
        }
        self.task.io.body_sources.take_over(keepsake.secrets.clone());
        if let Some(checkpoint) = &tail.checkpoint {
            let lacks = |process: &CheckpointProcess| {
                process.running && self.lacks_commands(process.proc, process.commands)
            };
            if checkpoint.processes.iter().any(lacks) {
                return Err(RebuildError::Incomplete(
                    "its agent did not receive a command from before the checkpoint",
                ));
            }
            self.task.machine.load(checkpoint, &keepsake.endpoints)?;
            if !checkpoint.files.iter().all(|name| self.task.io.files.restore(name)) {
                return Err(RebuildError::Incomplete("a file of its guest is missing"));
            }
            checkpoint.guest.load_into(&mut **self.guest()?).await?;
        }
        let last = self.replay_entries(&tail.entries).await?;
        let LinkMachine { processes, closing, turns, .. } = &self.task.machine;
        if !self.recorded.expected.is_empty() {
            return Err(RebuildError::Differs);
        }
        if closing.is_ending() && turns.is_empty() {
            return Err(RebuildError::Leaving);
        }
        if self.surviving.iter().any(|living| processes.lines(living.proc) < living.recorded) {
            return Err(RebuildError::Incomplete("lines of its agent are missing"));
        }
        self.take_over(former, last).await
    }

    /// Returns whether a surviving process received fewer commands than these.
    fn lacks_commands(&self, proc: ProcKey, commands: u64) -> bool {
        self.surviving.iter().any(|living| living.proc == proc && living.commands < commands)
    }

    fn guest(&mut self) -> Result<&mut Box<dyn Guest>, GuestFailure> {
        self.task.guest.as_mut().map_err(|failure| failure.clone())
    }

    /// Replays entries. Returns the time of the last one.
    async fn replay_entries(&mut self, entries: &[RecordingEntry]) -> Result<f64, RebuildError> {
        let mut now = 0.0;
        for (at, entry) in entries.iter().enumerate() {
            now = entry.t.max(now);
            match &entry.kind {
                EntryKind::In(input) => {
                    self.task.io.input(entry.t, input.clone());
                    let more = entries.get(at + 1).map(|next| &next.kind);
                    if !matches!(more, Some(EntryKind::In(_))) || self.task.io.inputs.len() >= BATCH
                    {
                        self.replay_inputs(entry.t).await?;
                    }
                }
                // The files are attached when they are to be read.
                EntryKind::Attached { .. } => {}
                note => {
                    if let EntryKind::Returned(result) = note {
                        self.pending.result_recorded(result.call);
                    }
                    self.task.machine.apply_entry(entry.t, note);
                    self.replay_effects(RECORDED, entry.t);
                }
            }
        }
        Ok(now)
    }

    /// Applies the collected inputs, passes them to the guest, compares its actions with the
    /// recorded ones and applies them.
    async fn replay_inputs(&mut self, t: f64) -> Result<(), RebuildError> {
        let inputs = std::mem::take(&mut self.task.io.inputs);
        for timed in &inputs {
            self.replay_input(&timed.input, timed.at_ms).await?;
        }
        self.task.machine.ledger.inputs(inputs.iter().map(|timed| &timed.input));
        let actions = self.guest()?.handle(inputs).await?;
        self.task.machine.ledger.actions(&actions);
        for action in actions {
            let is_recorded = self.recorded.expected.consume(&action)?;
            if !is_recorded {
                self.unrecorded.push(EntryKind::Out(action.clone()));
            }
            if let Action::TurnDone(done) = &action {
                self.replay_reads(done.turn, t).await;
            }
            if let Action::Ask(ask) = &action
                && let Some(ruling) = self.recorded.next_ruling(ask.ask)
            {
                let turn = TurnRef { session: ask.session, turn: ask.turn };
                if self.task.machine.turns.check_running(turn).is_ok() {
                    self.task.replies.report(turn.turn, LinkReport::Ruled(ruling));
                }
            }
            let was_sent = !is_recorded || self.recorded.was_sent(&action);
            self.task.machine.apply_action(t, action);
            self.replay_effects(Performed { is_recorded, was_sent }, t);
        }
        Ok(())
    }

    async fn replay_input(&mut self, input: &Input, t: f64) -> Result<(), RebuildError> {
        self.pending.input_recorded(input);
        match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                self.replay_turn_start(start, t).await?;
            }
            Input::Command(HostCommand::Shutdown) => return Err(RebuildError::Leaving),
            _ => {}
        }
        self.task.machine.apply_input(t, input);
        self.replay_effects(RECORDED, t);
        Ok(())
    }

    async fn replay_turn_start(&mut self, start: &StartTurn, t: f64) -> Result<(), RebuildError> {
        let names = self.task.machine.turns.next.clone();
        let names = names.ok_or(RebuildError::Incomplete("a turn has no name"))?;
        if let Some(reports) = self.turns.begin(&names, start, t) {
            self.task.io.body_sources.add_blobs(start.turn, blobs(start).await);
            self.task.replies.add_turn(start.turn, reports);
        }
        Ok(())
    }

    /// Reads the files of a turn whose contents are not recorded, although the guest ended the turn.
    async fn replay_reads(&mut self, turn: TurnKey, t: f64) {
        let unread = self.task.machine.calls.unread_files(turn);
        let is_unread = |effect: &LinkEffect| matches!(effect, LinkEffect::ReadFile { call, .. } if unread.contains(call));
        for effect in self.pending.take(is_unread) {
            if let LinkEffect::ReadFile { call, file, cwd } = effect {
                self.task.io.reads.begin(call, file, cwd);
            }
        }
        while !self.task.machine.calls.unread_files(turn).is_empty() {
            let read = self.task.io.reads.next().await;
            let note = self.task.machine.file_read(t, read);
            note.into_iter().for_each(|note| self.task.recording.host(note));
            self.replay_effects(RECORDED, t);
        }
    }

    fn replay_effects(&mut self, performed: Performed, t: f64) {
        while let Some(effect) = self.task.machine.turns.effects.next() {
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
            LinkEffect::Perform(Action::Spawn(_)) => self.pending.push(effect),
            LinkEffect::Perform(action) => self.replay_action(action, performed),
            LinkEffect::ReadFile { call, .. } => {
                let turn = self.task.machine.calls.get(call).map_or(0, |open| open.turn.turn);
                match self.recorded.attached.remove(&(turn, call)) {
                    Some(artifact) => {
                        let note = EntryKind::Attached { call, turn, artifact };
                        self.task.machine.apply_entry(t, &note);
                    }
                    None => self.pending.push(effect),
                }
            }
            LinkEffect::Input(_) | LinkEffect::Return { .. } => self.pending.push(effect),
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
            if !self.task.io.files.restore(&file.name) {
                let _ = self.task.io.files.put(file, &mut self.task.io.body_sources);
            }
            return;
        }
        let Some(proc) = command_target(&action) else { return };
        if !performed.was_sent {
            return self.task.machine.processes.command_dropped(&action);
        }
        let is_pending = self.lacks_commands(proc, self.task.machine.processes.commands(proc));
        if performed.is_recorded && !is_pending {
            // The text of one that was sent may not be available any more.
            return;
        }
        match self.task.io.command(&action) {
            Ok(command) => self.pending_commands.extend(command.filter(|_| is_pending)),
            Err(_) if performed.is_recorded => {}
            Err(error) => {
                self.task.machine.processes.command_dropped(&action);
                self.unrecorded.push(EntryKind::Host(dropped_note("write", &error)));
            }
        }
    }

    fn replay_report(&mut self, turn: TurnKey, report: LinkReport, t: f64) {
        self.turns.reported(turn, &report, t);
        if let LinkReport::Event(_) = report {
            let ago_ms = (self.task.recording.now() - t).max(0.0) as i64;
            let at_ms = jiff::Timestamp::now().as_millisecond() - ago_ms;
            self.task.replies.report(turn, LinkReport::Replayed(at_ms));
        }
        self.task.replies.report(turn, report);
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
