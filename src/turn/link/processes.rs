//! The processes of a link: how many there may be, what they do, and what they are told to do.

use std::collections::BTreeMap;
use std::task::Poll;

use crate::agent::{BasicAuth, ProcKey};
use crate::turn::{Process, ProcessCommand, ProcessEvent};

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
}

/// A process of a link.
struct Running {
    process: Process,
    /// It has exited. The guest hears that in a call of its own, so that what it makes of the end
    /// is told apart from what it made of the output.
    exit: Option<ProcessEvent>,
    endpoint: Option<Endpoint>,
}

/// Where a process listens on loopback.
pub(super) struct Endpoint {
    pub(super) port: u16,
    /// How the host signs in there.
    pub(super) auth: Option<BasicAuth>,
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
        self.running.insert(proc, Running { process, exit: None, endpoint });
    }

    pub(super) fn remove(&mut self, proc: ProcKey) {
        self.running.remove(&proc);
    }

    /// Kills all of them.
    pub(super) fn kill(&mut self) {
        self.running.clear();
    }

    /// A turn begins: it may start as many as the one before.
    pub(super) fn turn_begins(&mut self) {
        self.started = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether one of them listens on a port: it does not leave by itself.
    pub(super) fn any_listens(&self) -> bool {
        self.running.values().any(|running| running.endpoint.is_some())
    }

    /// Where a process listens.
    ///
    /// # Errors
    /// Why nowhere.
    pub(super) fn endpoint(&self, proc: ProcKey) -> Result<&Endpoint, String> {
        let running = self.running.get(&proc).ok_or("the process is not running")?;
        Ok(running.endpoint.as_ref().ok_or("the process was not started with `listens`")?)
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
