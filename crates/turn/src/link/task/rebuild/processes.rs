//! The processes of a link at the end of its recording, and the commands that they did not receive.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ProcessCommand, SurvivingProcess, Survivor};
use aetheel_model::agent::{Input, ProcKey, Spawn};
use aetheel_recording::Checkpoint;
use aetheel_recording::comparison::RebuildError;

#[derive(Default)]
pub(super) struct RebuiltProcesses {
    /// The processes that outlived the gateway.
    pub(super) surviving: Vec<SurvivingProcess>,
    /// Requested processes that are not known to have started.
    pub(super) pending_spawns: Vec<Spawn>,
    /// Processes that had started and not ended.
    pub(super) running: BTreeSet<ProcKey>,
    /// The number of recorded lines of each process. Its end counts as one more line.
    lines: BTreeMap<ProcKey, u64>,
    /// The number of commands to each process.
    pub(super) commands: BTreeMap<ProcKey, u64>,
    /// Commands that the process did not receive.
    pub(super) pending_commands: Vec<(ProcKey, ProcessCommand)>,
}

impl RebuiltProcesses {
    pub(super) fn of(survivor: &Survivor) -> Self {
        Self { surviving: survivor.processes.clone(), ..Self::default() }
    }

    /// Adds the processes of a checkpoint.
    ///
    /// # Errors
    /// [`RebuildError::Incomplete`] if a process did not receive all commands from before the
    /// checkpoint.
    pub(super) fn start_from(&mut self, checkpoint: &Checkpoint) -> Result<(), RebuildError> {
        for process in &checkpoint.processes {
            let proc = process.proc;
            if process.running && self.lacks_commands(proc, process.commands) {
                return Err(RebuildError::Incomplete(
                    "its agent did not receive a command from before the checkpoint",
                ));
            }
            self.lines.insert(proc, process.lines);
            self.commands.insert(proc, process.commands);
            if process.running {
                self.running.insert(proc);
            }
        }
        Ok(())
    }

    /// Returns whether a surviving process received fewer commands than these.
    fn lacks_commands(&self, proc: ProcKey, commands: u64) -> bool {
        self.surviving.iter().any(|living| living.proc == proc && living.commands < commands)
    }

    /// Applies an input about a process.
    pub(super) fn input_recorded(&mut self, input: &Input) {
        match input {
            Input::Spawned(spawned) => {
                self.take_spawn(spawned.proc);
                self.running.insert(spawned.proc);
            }
            Input::SpawnFailed(failed) => drop(self.take_spawn(failed.proc)),
            Input::Line(line) => self.add_line(line.proc),
            Input::Exited(exited) => {
                self.add_line(exited.proc);
                self.running.remove(&exited.proc);
            }
            _ => {}
        }
    }

    fn add_line(&mut self, proc: ProcKey) {
        *self.lines.entry(proc).or_default() += 1;
    }

    /// Counts a command to a process. Returns true if the process did not receive it.
    pub(super) fn is_pending(&mut self, proc: ProcKey) -> bool {
        let count = self.commands.entry(proc).or_default();
        *count += 1;
        let count = *count;
        self.lacks_commands(proc, count)
    }

    /// Counts a command to a process, and keeps it if the process did not receive it.
    pub(super) fn command(&mut self, proc: ProcKey, command: ProcessCommand) {
        if self.is_pending(proc) {
            self.pending_commands.push((proc, command));
        }
    }

    /// Returns the number of recorded lines of a process.
    pub(super) fn lines(&self, proc: ProcKey) -> u64 {
        self.lines.get(&proc).copied().unwrap_or_default()
    }

    /// Checks that the recording has all lines whose recording was confirmed to the processes.
    ///
    /// # Errors
    /// [`RebuildError::Incomplete`] if lines are missing.
    pub(super) fn check_lines(&self) -> Result<(), RebuildError> {
        match self.surviving.iter().any(|living| self.lines(living.proc) < living.recorded) {
            true => Err(RebuildError::Incomplete("lines of its agent are missing")),
            false => Ok(()),
        }
    }

    /// Removes a process that was about to start. Returns false if no such process has this key.
    pub(super) fn take_spawn(&mut self, proc: ProcKey) -> bool {
        let at = self.pending_spawns.iter().position(|spawn| spawn.proc == proc);
        at.map(|at| self.pending_spawns.remove(at)).is_some()
    }
}
