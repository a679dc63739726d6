//! The objects that a host keeps open for a guest: turns, processes, connections and timers.

use std::collections::{BTreeMap, BTreeSet};

use aetheel_model::agent::{
    Exit, Exited, HttpFailed, HttpResponse, Input, SpawnFailed, Spawned, StreamClosed, StreamEvent,
    StreamOpened,
};

const MAX_SPAWNS: usize = 8;

/// The keys of a session and a turn, as the host assigned them.
pub(super) type TurnId = (u32, u32);

#[derive(Default)]
pub(super) struct OpenTurns {
    ends: BTreeMap<TurnId, usize>,
    /// Set if the guest was shut down during a turn, which a real host does not do. Turns then need
    /// not end.
    excused: bool,
}

impl OpenTurns {
    pub(super) fn begin(&mut self, turn: TurnId) {
        self.ends.entry(turn).or_default();
    }

    /// Counts an end of a turn and returns their number, or `None` if the turn never began.
    pub(super) fn end(&mut self, turn: TurnId) -> Option<usize> {
        let ends = self.ends.get_mut(&turn)?;
        *ends += 1;
        Some(*ends)
    }

    /// Returns how often a turn has ended, or `None` if it never began.
    pub(super) fn ends_of(&self, turn: TurnId) -> Option<usize> {
        self.ends.get(&turn).copied()
    }

    pub(super) fn any_open(&self) -> bool {
        self.ends.values().any(|ends| *ends == 0)
    }

    pub(super) fn open_in(&self, session: u32) -> bool {
        self.ends.iter().any(|((of, _), ends)| *of == session && *ends == 0)
    }

    pub(super) fn shut_down(&mut self) {
        self.excused |= self.any_open();
    }

    /// Ends the turns that should have ended by now, and returns their number.
    pub(super) fn end_forgotten(&mut self) -> usize {
        let mut forgotten = 0;
        for ends in self.ends.values_mut().filter(|ends| **ends == 0 && !self.excused) {
            *ends = 1;
            forgotten += 1;
        }
        forgotten
    }
}

#[derive(Default)]
pub(super) struct OpenProcesses {
    /// The keys of all processes that were ever started.
    started: BTreeSet<u32>,
    /// The running processes, and whether the guest knows that they started.
    alive: BTreeMap<u32, bool>,
}

impl OpenProcesses {
    /// Adds a process. Returns `false` if the key was used before.
    pub(super) fn start(&mut self, proc: u32) -> bool {
        self.alive.insert(proc, false);
        self.started.insert(proc)
    }

    pub(super) fn confirm(&mut self, proc: u32) {
        if let Some(known) = self.alive.get_mut(&proc) {
            *known = true;
        }
    }

    pub(super) fn exited(&mut self, proc: u32) {
        self.alive.remove(&proc);
    }

    pub(super) fn was_started(&self, proc: u32) -> bool {
        self.started.contains(&proc)
    }

    /// Returns the highest key that was ever used.
    pub(super) fn last(&self) -> Option<u32> {
        self.started.last().copied()
    }

    /// Adds the inputs that end all processes. With `stay`, only confirms that they have started.
    pub(super) fn endings(&self, exit: Exit, stay: bool, ends: &mut Vec<Input>) {
        for (&proc, known) in &self.alive {
            if !known && self.started.len() > MAX_SPAWNS {
                ends.push(Input::SpawnFailed(SpawnFailed {
                    proc,
                    message: "a turn starts at most 8 processes".into(),
                    not_found: false,
                }));
                continue;
            }
            if !known {
                ends.push(Input::Spawned(Spawned { proc, agent_version: None }));
            }
            if !stay {
                let stderr_tail = "the kit ended it".into();
                ends.push(Input::Exited(Exited { proc, how: exit, stderr_tail }));
            }
        }
    }
}

/// Open HTTP requests and event streams.
#[derive(Default)]
pub(super) struct OpenConnections {
    pub(super) requests: BTreeSet<u32>,
    pub(super) streams: BTreeSet<u32>,
}

impl OpenConnections {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.streams.is_empty()
    }

    /// Adds the inputs that end all connections: responses with this body, or failures.
    pub(super) fn endings(&self, body: Option<&str>, ends: &mut Vec<Input>) {
        for &request in &self.requests {
            ends.push(match body {
                Some(body) => {
                    Input::HttpResponse(HttpResponse { request, status: 200, body: body.into() })
                }
                None => Input::HttpFailed(HttpFailed {
                    request,
                    message: "connection refused".into(),
                    timed_out: false,
                }),
            });
        }
        for &stream in &self.streams {
            if let Some(body) = body {
                let data = body.into();
                ends.push(Input::StreamOpened(StreamOpened { stream, status: 200 }));
                ends.push(Input::StreamEvent(StreamEvent { stream, name: None, id: None, data }));
            }
            let message = Some("the connection broke".into());
            ends.push(Input::StreamClosed(StreamClosed { stream, message }));
        }
    }
}

/// The clock of the trial in milliseconds, and its timers.
#[derive(Default)]
pub(super) struct OpenTimers {
    pub(super) now: f64,
    due: BTreeMap<u32, f64>,
}

impl OpenTimers {
    pub(super) fn set(&mut self, timer: u32, after_ms: u32) {
        self.due.insert(timer, self.now + f64::from(after_ms));
    }

    pub(super) fn remove(&mut self, timer: u32) {
        self.due.remove(&timer);
    }

    /// Advances the clock to the next timer, and returns its input.
    pub(super) fn run_out(&mut self) -> Option<Input> {
        let (timer, due) = self.due.iter().min_by(|a, b| a.1.total_cmp(b.1))?;
        self.now = self.now.max(*due);
        Some(Input::Timer(*timer))
    }
}
