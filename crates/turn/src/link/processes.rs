//! The processes of a link: how many there may be, what they do, and what they are told to do.

use std::collections::{BTreeMap, VecDeque};
use std::task::Poll;

use serde::{Deserialize, Serialize};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Process, ProcessCommand, ProcessEvent};
use aetheel_model::agent::{BasicAuth, ProcKey};

/// Processes a link may start between two turns' beginnings.
const STARTS: u32 = 8;
/// Processes a link may have at a time: one that leaves and one that comes, and some room.
const AT_ONCE: usize = 4;

/// See the module. Dropping a process kills everything of its run.
#[derive(Default)]
pub(super) struct Processes {
    running: BTreeMap<ProcKey, Running>,
    /// Since the last turn began.
    started: u32,
    records: Records,
}

/// How much of what held processes said is written down, and who is still to be told.
#[derive(Default)]
struct Records {
    /// Lines, and the end as one more, of each process.
    heard: BTreeMap<ProcKey, u64>,
    /// Once the recording has so many lines, a process is told that so much of it is there.
    due: VecDeque<(u64, ProcKey, u64)>,
    /// Those whose end is written down and still needed.
    ends: Vec<ProcKey>,
    /// Those that have ended. Dropped they would be given up, though their turns are not over.
    ended: BTreeMap<ProcKey, Process>,
}

/// A process of a link.
struct Running {
    process: Process,
    /// It has exited. The guest hears that in a call of its own, so that what it makes of the end
    /// is told apart from what it made of the output.
    exit: Option<ProcessEvent>,
    endpoint: Option<Endpoint>,
    /// Cancelled when the link has no such process any more.
    ended: CancellationToken,
    _ends: DropGuard,
}

/// A process that listens on a port.
pub(super) struct Listener<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// Cancelled once the link knows that the process has ended.
    pub(super) ended: CancellationToken,
}

/// Where a process listens on loopback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Endpoint {
    pub(super) port: u16,
    /// How the host signs in there.
    pub(super) auth: Option<BasicAuth>,
}

impl Running {
    fn new(process: Process, endpoint: Option<Endpoint>) -> Self {
        let ended = CancellationToken::new();
        Self { process, exit: None, endpoint, _ends: ended.clone().drop_guard(), ended }
    }
}

impl Processes {
    /// Whether a process may be started under this key now.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn may_start(&self, proc: ProcKey) -> Result<(), String> {
        if self.running.contains_key(&proc) {
            return Err(format!("process {proc} is running already"));
        }
        if self.started >= STARTS || self.running.len() >= AT_ONCE {
            return Err(format!(
                "a turn starts at most {STARTS} processes, and a link has {AT_ONCE} at a time"
            ));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, proc: ProcKey, process: Process, endpoint: Option<Endpoint>) {
        self.started += 1;
        self.running.insert(proc, Running::new(process, endpoint));
    }

    pub(super) fn remove(&mut self, proc: ProcKey) {
        if let Some(ended) = self.running.remove(&proc).filter(|ended| ended.process.held) {
            self.records.ended.insert(proc, ended.process);
        }
    }

    /// Goes on with a process of an earlier life, of which so much is written down.
    pub(super) fn take_over(
        &mut self,
        proc: ProcKey,
        process: Process,
        endpoint: Option<Endpoint>,
        heard: u64,
    ) {
        self.records.heard.insert(proc, heard);
        self.running.insert(proc, Running::new(process, endpoint));
    }

    /// Notes that so many more lines of a process, or its end, stand in the recording once that has
    /// `lines`.
    pub(super) fn recorded(&mut self, proc: ProcKey, more: u64, lines: u64) {
        let heard = self.records.heard.entry(proc).or_default();
        *heard += more;
        match self.records.due.back_mut() {
            Some((at, last, so_far)) if *at == lines && *last == proc => *so_far = *heard,
            _ => self.records.due.push_back((lines, proc, *heard)),
        }
    }

    /// The end of a process of an earlier life stands in the recording, as the last of so much.
    pub(super) fn ended_before(&mut self, proc: ProcKey, process: Process, heard: u64) {
        self.records.heard.insert(proc, heard.saturating_sub(1));
        self.records.ended.insert(proc, process);
        self.ended(proc);
    }

    /// The end of a process stands in the recording.
    pub(super) fn ended(&mut self, proc: ProcKey) {
        self.records.ends.push(proc);
    }

    /// No turn needs those processes any more whose end stands in the recording, which has so many
    /// lines.
    pub(super) fn tell_ends(&mut self, lines: u64) {
        for proc in std::mem::take(&mut self.records.ends) {
            self.recorded(proc, 1, lines);
        }
    }

    /// The recording has so many lines: whoever holds the processes need not keep what stands
    /// there.
    pub(super) fn tell_recorded(&mut self, lines: u64) {
        while let Some((_, proc, heard)) = self.records.due.pop_front_if(|due| due.0 <= lines) {
            let recorded = ProcessCommand::Recorded(heard);
            if let Some(running) = self.running.get(&proc).filter(|running| running.process.held) {
                let _ = running.process.commands.send(recorded);
            } else if let Some(ended) = self.records.ended.get(&proc) {
                let _ = ended.commands.send(recorded);
            }
        }
    }

    /// Repeats how much of what the running processes said is written down, so that whoever holds
    /// them knows that this life of the gateway goes on with them.
    pub(super) fn repeat_recorded(&self) {
        for (proc, running) in self.running.iter().filter(|(_, running)| running.process.held) {
            let heard = self.records.heard.get(proc).copied().unwrap_or_default();
            // Fails when it has ended.
            let _ = running.process.commands.send(ProcessCommand::Recorded(heard));
        }
    }

    /// Where those listen that do.
    pub(super) fn endpoints(&self) -> BTreeMap<ProcKey, Endpoint> {
        let listens =
            |(proc, running): (&ProcKey, &Running)| Some((*proc, running.endpoint.clone()?));
        self.running.iter().filter_map(listens).collect()
    }

    /// Kills all of them.
    pub(super) fn kill(&mut self) {
        self.running.clear();
    }

    /// A turn begins: it may start as many as the one before.
    pub(super) fn turn_begins(&mut self) {
        self.started = 0;
    }

    /// Whether a process was started since the last turn began.
    pub(super) fn any_started(&self) -> bool {
        self.started > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether one of them listens on a port: it does not leave by itself.
    pub(super) fn any_listens(&self) -> bool {
        self.running.values().any(|running| running.endpoint.is_some())
    }

    /// Returns where a process listens.
    ///
    /// # Errors
    /// It does not run, or does not listen.
    pub(super) fn listener(&self, proc: ProcKey) -> Result<Listener<'_>, String> {
        let running = self.running.get(&proc).ok_or("the process is not running")?;
        let endpoint =
            running.endpoint.as_ref().ok_or("the process was not started with `listens`")?;
        Ok(Listener { endpoint, ended: running.ended.clone() })
    }

    /// The next event of any process, none when it went without a last word; never, when there is
    /// no process. Dropping the future loses nothing.
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

    /// The next event of a process, if it is there already.
    pub(super) fn try_next_event(&mut self, proc: ProcKey) -> Option<ProcessEvent> {
        self.running.get_mut(&proc)?.process.events.try_recv().ok()
    }

    /// Keeps an exit as the next event of its process.
    pub(super) fn put_back(&mut self, proc: ProcKey, exit: ProcessEvent) {
        if let Some(running) = self.running.get_mut(&proc) {
            running.exit = Some(exit);
        }
    }

    /// Tells a process to do something; false: it is not running.
    pub(super) fn command(&self, proc: ProcKey, command: ProcessCommand) -> bool {
        let running = self.running.get(&proc);
        // A dead process takes no commands; its exit is on the way.
        running.map(|running| running.process.commands.send(command)).is_some()
    }

    /// Tells all processes to do something; false: none is alive.
    pub(super) fn command_all(&self, command: &ProcessCommand) -> bool {
        let alive = |running: &&Running| running.process.commands.send(command.clone()).is_ok();
        self.running.values().filter(alive).count() > 0
    }
}
