//! Passes commands to the processes of a link, and their events to the link.

use std::collections::{BTreeMap, VecDeque};
use std::task::Poll;

use serde::{Deserialize, Serialize};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::action_error::ActionError;
use super::process_table::ProcessTable;
use crate::{AgentProcess, ProcessCommand, ProcessEvent};
use aetheel_model::agent::{BasicAuth, ProcKey};

/// The processes of a link. Dropping a process kills all processes of its run.
#[derive(Default)]
pub(super) struct LinkProcesses {
    running: BTreeMap<ProcKey, RunningProcess>,
    confirmations: Confirmations,
}

/// The outstanding confirmations that output of processes is recorded.
#[derive(Default)]
struct Confirmations {
    /// The number of lines that the recording must have, the process, and the number of its lines to
    /// confirm then.
    acks: VecDeque<(u64, ProcKey, u64)>,
    /// Processes whose end is recorded but not confirmed, because open turns still need them.
    ends: Vec<ProcKey>,
    /// Processes that have ended. Dropping one would give it up while its turns are still open.
    ended: BTreeMap<ProcKey, AgentProcess>,
}

/// A running process of a link.
struct RunningProcess {
    process: AgentProcess,
    /// The exit of the process, which is passed to the guest in a separate call, so that the
    /// actions for the exit are distinct from those for the output.
    exit: Option<ProcessEvent>,
    endpoint: Option<Endpoint>,
    /// Cancelled when the process is removed from the link.
    ended: CancellationToken,
    _ends: DropGuard,
}

/// A process that listens on a port.
pub(super) struct ProcessListener<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// Cancelled once the link knows that the process has ended.
    pub(super) ended: CancellationToken,
}

/// The loopback port on which a process listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Endpoint {
    pub(super) port: u16,
    /// The credentials with which the host signs in.
    pub(super) auth: Option<BasicAuth>,
}

impl RunningProcess {
    fn new(process: AgentProcess, endpoint: Option<Endpoint>) -> Self {
        let ended = CancellationToken::new();
        Self { process, exit: None, endpoint, _ends: ended.clone().drop_guard(), ended }
    }
}

impl LinkProcesses {
    pub(super) fn add(&mut self, proc: ProcKey, process: AgentProcess, endpoint: Option<Endpoint>) {
        self.running.insert(proc, RunningProcess::new(process, endpoint));
    }

    pub(super) fn remove(&mut self, proc: ProcKey) {
        if let Some(ended) = self.running.remove(&proc).filter(|ended| ended.process.held) {
            self.confirmations.ended.insert(proc, ended.process);
        }
    }

    /// Adds a process that outlived the gateway and whose end is already recorded.
    pub(super) fn add_ended(&mut self, proc: ProcKey, process: AgentProcess) {
        self.confirmations.ended.insert(proc, process);
        self.record_end(proc);
    }

    /// Notes that the first `count` lines of a process, or its end, are in the recording once it has
    /// `lines` lines.
    pub(super) fn recorded(&mut self, proc: ProcKey, count: u64, lines: u64) {
        match self.confirmations.acks.back_mut() {
            Some((at, last, so_far)) if *at == lines && *last == proc => *so_far = count,
            _ => self.confirmations.acks.push_back((lines, proc, count)),
        }
    }

    /// Notes that the end of a process is recorded.
    pub(super) fn record_end(&mut self, proc: ProcKey) {
        self.confirmations.ends.push(proc);
    }

    /// Confirms the recorded ends of processes, because no turn needs these processes any more.
    /// `lines` is the number of lines in the recording.
    pub(super) fn ack_ends(&mut self, table: &ProcessTable, lines: u64) {
        for proc in std::mem::take(&mut self.confirmations.ends) {
            self.recorded(proc, table.lines(proc), lines);
        }
    }

    /// Confirms to the processes everything that is in the first `lines` lines of the recording, so
    /// that their holder can drop it.
    pub(super) fn ack_recorded(&mut self, lines: u64) {
        while let Some((_, proc, count)) =
            self.confirmations.acks.pop_front_if(|due| due.0 <= lines)
        {
            let recorded = ProcessCommand::Recorded(count);
            if let Some(running) = self.running.get(&proc).filter(|running| running.process.held) {
                let _ = running.process.commands.send(recorded);
            } else if let Some(ended) = self.confirmations.ended.get(&proc) {
                let _ = ended.commands.send(recorded);
            }
        }
    }

    /// Repeats the latest confirmations of the running processes, so that their holder knows that
    /// this gateway process continues with them.
    pub(super) fn repeat_acks(&self, table: &ProcessTable) {
        for (proc, running) in self.running.iter().filter(|(_, running)| running.process.held) {
            // Fails if the process has ended.
            let _ = running.process.commands.send(ProcessCommand::Recorded(table.lines(*proc)));
        }
    }

    /// Returns the endpoints of the processes that listen.
    pub(super) fn endpoints(&self) -> BTreeMap<ProcKey, Endpoint> {
        let listens =
            |(proc, running): (&ProcKey, &RunningProcess)| Some((*proc, running.endpoint.clone()?));
        self.running.iter().filter_map(listens).collect()
    }

    /// Kills all processes.
    pub(super) fn kill(&mut self) {
        self.running.clear();
    }

    /// Returns the endpoint of a process.
    ///
    /// # Errors
    /// Returns an error if the process does not run or does not listen.
    pub(super) fn listener(&self, proc: ProcKey) -> Result<ProcessListener<'_>, ActionError> {
        let running = self.running.get(&proc).ok_or(ActionError::NotRunning)?;
        let endpoint = running.endpoint.as_ref().ok_or(ActionError::NotListening)?;
        Ok(ProcessListener { endpoint, ended: running.ended.clone() })
    }

    /// Waits for the next event of any process. The event is `None` if the process ended without an
    /// exit event. Never completes if there is no process. Dropping the future loses nothing.
    pub(super) async fn next_event(&mut self) -> (ProcKey, Option<ProcessEvent>) {
        std::future::poll_fn(|context| {
            for (proc, running) in &mut self.running {
                if let Some(exit) = running.exit.take() {
                    return Poll::Ready((*proc, Some(exit)));
                }
                if let Poll::Ready(event) = running.process.events.poll_recv(context) {
                    return Poll::Ready((*proc, event));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the next event of a process if it has already arrived.
    pub(super) fn try_next_event(&mut self, proc: ProcKey) -> Option<ProcessEvent> {
        self.running.get_mut(&proc)?.process.events.try_recv().ok()
    }

    /// Stores an exit as the next event of its process.
    pub(super) fn defer_exit(&mut self, proc: ProcKey, exit: ProcessEvent) {
        if let Some(running) = self.running.get_mut(&proc) {
            running.exit = Some(exit);
        }
    }

    /// Sends a command to a process.
    ///
    /// # Errors
    /// [`ActionError::NotRunning`] if the process does not run.
    pub(super) fn command(
        &self,
        proc: ProcKey,
        command: ProcessCommand,
    ) -> Result<(), ActionError> {
        let running = self.running.get(&proc).ok_or(ActionError::NotRunning)?;
        // A process that has ended ignores commands; its exit event follows.
        let _ = running.process.commands.send(command);
        Ok(())
    }

    /// Sends a command to all processes.
    pub(super) fn command_all(&self, command: &ProcessCommand) {
        for running in self.running.values() {
            let _ = running.process.commands.send(command.clone());
        }
    }

    pub(super) fn is_running(&self, proc: ProcKey) -> bool {
        self.running.contains_key(&proc)
    }
}
