//! The processes of a link, as its recording shows them.

use std::collections::{BTreeMap, BTreeSet};

use crate::link::action_error::ActionError;
use crate::link::limits::{AT_ONCE, STARTS};
use aetheel_model::agent::{Action, HttpFailed, HttpResponse, Input, ProcKey, StopProcess, Write};
use aetheel_recording::CheckpointProcess;

#[derive(Default)]
pub(in crate::link) struct ProcessTable {
    processes: BTreeMap<ProcKey, ProcessState>,
    counts: BTreeMap<ProcKey, ProcessCounts>,
    /// The number of processes started since the last turn began.
    started: u32,
    /// The open HTTP requests to processes.
    pub(in crate::link) requests: BTreeSet<u32>,
    /// The open streams from processes.
    pub(in crate::link) streams: BTreeSet<u32>,
}

struct ProcessState {
    is_starting: bool,
    /// Whether the process listens on a port, so that it does not exit by itself.
    listens: bool,
}

/// The numbers by which the recording of a process and its holder are compared.
#[derive(Clone, Copy, Default)]
struct ProcessCounts {
    /// The number of recorded lines. The end of the process counts as one more line.
    lines: u64,
    /// The number of commands that were sent.
    commands: u64,
}

impl ProcessTable {
    /// Adds a process that is about to start.
    ///
    /// # Errors
    /// Returns an error if the key is in use, or a limit is reached.
    pub(in crate::link) fn start(
        &mut self,
        proc: ProcKey,
        listens: bool,
    ) -> Result<(), ActionError> {
        if self.runs(proc) {
            return Err(ActionError::ProcessRunning(proc));
        }
        if self.started >= STARTS || self.processes.len() >= AT_ONCE {
            return Err(ActionError::TooManyProcesses);
        }
        self.started += 1;
        self.processes.insert(proc, ProcessState { is_starting: true, listens });
        Ok(())
    }

    pub(in crate::link) fn started(&mut self, proc: ProcKey) {
        if let Some(process) = self.processes.get_mut(&proc) {
            process.is_starting = false;
        }
    }

    /// Removes a process that could not be started.
    pub(in crate::link) fn failed(&mut self, proc: ProcKey) {
        if self.processes.get(&proc).is_some_and(|process| process.is_starting) {
            self.processes.remove(&proc);
            self.started = self.started.saturating_sub(1);
        }
    }

    pub(in crate::link) fn ended(&mut self, proc: ProcKey) {
        self.processes.remove(&proc);
        self.line(proc);
    }

    /// Counts a recorded line.
    pub(in crate::link) fn line(&mut self, proc: ProcKey) {
        self.counts.entry(proc).or_default().lines += 1;
    }

    /// Counts a command, and notes which requests and streams are open.
    pub(in crate::link) fn acted(&mut self, action: &Action) {
        if let Some(proc) = command_target(action) {
            self.counts.entry(proc).or_default().commands += 1;
        }
        match action {
            Action::Http(request) => drop(self.requests.insert(request.request)),
            Action::OpenStream(open) => drop(self.streams.insert(open.stream)),
            _ => {}
        }
    }

    /// Notes that a request or a stream is not open any more.
    pub(in crate::link) fn connection_ended(&mut self, input: &Input) {
        match input {
            Input::HttpResponse(HttpResponse { request, .. })
            | Input::HttpFailed(HttpFailed { request, .. }) => drop(self.requests.remove(request)),
            Input::StreamClosed(closed) => drop(self.streams.remove(&closed.stream)),
            _ => {}
        }
    }

    /// Corrects the number of commands, because the last one was not sent.
    pub(in crate::link) fn command_dropped(&mut self, action: &Action) {
        if let Some(count) = command_target(action).and_then(|proc| self.counts.get_mut(&proc)) {
            count.commands = count.commands.saturating_sub(1);
            // A guest may name any number of processes that do not exist.
            self.counts.retain(|_, count| count.lines + count.commands > 0);
        }
    }

    /// Returns the number of recorded lines of a process. Its end counts as one more line.
    pub(in crate::link) fn lines(&self, proc: ProcKey) -> u64 {
        self.counts.get(&proc).map_or(0, |count| count.lines)
    }

    /// Returns the number of commands that were sent to a process.
    pub(in crate::link) fn commands(&self, proc: ProcKey) -> u64 {
        self.counts.get(&proc).map_or(0, |count| count.commands)
    }

    /// Returns whether a process runs or is about to start.
    pub(in crate::link) fn runs(&self, proc: ProcKey) -> bool {
        self.processes.contains_key(&proc)
    }

    /// Returns the processes that have started and not ended.
    pub(in crate::link) fn started_processes(&self) -> Vec<ProcKey> {
        let started = self.processes.iter().filter(|(_, process)| !process.is_starting);
        started.map(|(proc, _)| *proc).collect()
    }

    /// Adds a process of a checkpoint.
    pub(in crate::link) fn restore(&mut self, process: &CheckpointProcess, listens: bool) {
        let CheckpointProcess { proc, lines, commands, running } = *process;
        self.counts.insert(proc, ProcessCounts { lines, commands });
        if running {
            self.processes.insert(proc, ProcessState { is_starting: false, listens });
        }
    }

    /// Returns the processes for a checkpoint: those that run, and those whose output is recorded.
    pub(in crate::link) fn checkpoint(&self) -> Vec<CheckpointProcess> {
        let known: BTreeSet<ProcKey> =
            self.processes.keys().chain(self.counts.keys()).copied().collect();
        let process = |proc| CheckpointProcess {
            proc,
            lines: self.lines(proc),
            commands: self.commands(proc),
            running: self.runs(proc),
        };
        known.into_iter().map(process).filter(|known| known.running || known.lines > 0).collect()
    }

    /// Removes all processes, because they are killed.
    pub(in crate::link) fn clear(&mut self) {
        self.processes.clear();
    }

    /// Resets the number of started processes at the beginning of a turn.
    pub(in crate::link) fn turn_begins(&mut self) {
        self.started = 0;
    }

    /// Returns whether a process was started since the last turn began.
    pub(in crate::link) fn any_started(&self) -> bool {
        self.started > 0
    }

    pub(in crate::link) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns whether a process listens on a port.
    pub(in crate::link) fn any_listens(&self) -> bool {
        self.processes.values().any(|process| process.listens)
    }
}

/// Returns the process to which an action is a command.
pub(in crate::link) fn command_target(action: &Action) -> Option<ProcKey> {
    match action {
        Action::Write(Write { proc, .. })
        | Action::CloseStdin(proc)
        | Action::Stop(StopProcess { proc, .. }) => Some(*proc),
        _ => None,
    }
}
