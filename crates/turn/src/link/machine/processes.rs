//! The processes of a link, as its recording shows them.

use std::collections::BTreeMap;

use crate::link::action_error::ActionError;
use crate::link::limits::{AT_ONCE, STARTS};
use aetheel_model::agent::ProcKey;

#[derive(Default)]
pub(in crate::link) struct ProcessTable {
    processes: BTreeMap<ProcKey, ProcessState>,
    /// The number of processes started since the last turn began.
    started: u32,
}

struct ProcessState {
    is_starting: bool,
    /// Whether the process listens on a port, so that it does not exit by itself.
    listens: bool,
}

impl ProcessTable {
    /// Adds a process that is about to start.
    ///
    /// # Errors
    /// Returns an error if the key is in use, or a limit is reached.
    pub(super) fn start(&mut self, proc: ProcKey, listens: bool) -> Result<(), ActionError> {
        if self.processes.contains_key(&proc) {
            return Err(ActionError::ProcessRunning(proc));
        }
        if self.started >= STARTS || self.processes.len() >= AT_ONCE {
            return Err(ActionError::TooManyProcesses);
        }
        self.started += 1;
        self.processes.insert(proc, ProcessState { is_starting: true, listens });
        Ok(())
    }

    pub(super) fn started(&mut self, proc: ProcKey) {
        if let Some(process) = self.processes.get_mut(&proc) {
            process.is_starting = false;
        }
    }

    /// Removes a process that could not be started.
    pub(super) fn failed(&mut self, proc: ProcKey) {
        if self.processes.get(&proc).is_some_and(|process| process.is_starting) {
            self.processes.remove(&proc);
            self.started = self.started.saturating_sub(1);
        }
    }

    pub(super) fn ended(&mut self, proc: ProcKey) {
        self.processes.remove(&proc);
    }

    /// Adds a process that ran at a checkpoint.
    pub(in crate::link) fn restore(&mut self, proc: ProcKey, listens: bool) {
        self.processes.insert(proc, ProcessState { is_starting: false, listens });
    }

    /// Removes all processes, because they are killed.
    pub(super) fn clear(&mut self) {
        self.processes.clear();
    }

    /// Resets the number of started processes at the beginning of a turn.
    pub(super) fn turn_begins(&mut self) {
        self.started = 0;
    }

    /// Returns whether a process was started since the last turn began.
    pub(super) fn any_started(&self) -> bool {
        self.started > 0
    }

    pub(in crate::link) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns whether a process listens on a port.
    pub(super) fn any_listens(&self) -> bool {
        self.processes.values().any(|process| process.listens)
    }
}
