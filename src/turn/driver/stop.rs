//! Time and the ladder by which a turn is stopped: the guest interrupts, SIGTERM, SIGKILL.

use std::time::Duration;

use tokio::time::Instant;

use super::{Driver, StopReason};
use crate::agent::descriptor::Feature;
use crate::agent::{Command, Input, Signal};
use crate::turn::ProcessCommand;
use crate::turn::recording::What;

/// Time custody has, beyond the grace, to report that everything is dead.
const CUSTODY: Duration = Duration::from_secs(10);

/// Why the host stopped the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Asked(StopReason),
    TimedOut,
    Silent,
    Output,
    Rounds,
}

/// How far the process is on its way out, and when the next step is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaving {
    No,
    /// The turn ended; the agent may leave by itself.
    Lingering(Instant),
    /// The guest was told to interrupt.
    Interrupted(Instant),
    /// SIGTERM was sent; custody follows up with SIGKILL.
    Terminated(Instant),
}

impl Leaving {
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Self::No => None,
            Self::Lingering(at) | Self::Interrupted(at) | Self::Terminated(at) => Some(at),
        }
    }
}

impl Driver<'_> {
    /// Whether nothing can happen any more that the turn would wait for.
    pub(super) fn is_over(&self) -> bool {
        let awaited = !self.timers.is_empty() || !self.asks.is_empty();
        self.process.is_none() && (self.guard.is_done() || self.guest.is_none() || self.cause.is_some() || !awaited)
    }

    /// Does what is due.
    pub(super) fn clock(&mut self) {
        let now = Instant::now();
        let due: Vec<u32> = self.timers.iter().filter(|(_, at)| **at <= now).map(|(timer, _)| *timer).collect();
        for timer in due {
            self.timers.remove(&timer);
            self.input(Input::Timer(timer));
        }
        if self.leaving.due().is_some_and(|at| at <= now) {
            self.leave();
        }
        if self.cause.is_none() && !self.guard.is_done() {
            if now >= self.started + self.host.query_timeout {
                self.stop(Cause::TimedOut);
            } else if self.host.idle_timeout.is_some_and(|idle| now >= self.heard + idle) {
                self.stop(Cause::Silent);
            }
        }
    }

    /// When `clock` is needed next.
    pub(super) fn deadline(&self) -> Instant {
        let mut times: Vec<Instant> = self.timers.values().copied().collect();
        times.extend(self.leaving.due());
        if self.cause.is_none() && !self.guard.is_done() {
            times.push(self.started + self.host.query_timeout);
            times.extend(self.host.idle_timeout.map(|idle| self.heard + idle));
        }
        // Without any, only the process can bring news; looking again now and then does no harm.
        times.into_iter().min().unwrap_or_else(|| Instant::now() + CUSTODY)
    }

    /// Stops agents that have no limit of their own at the operator's limit of tool uses.
    pub(super) fn count_rounds(&mut self) {
        let limited = !self.backend.descriptor().has(Feature::MaxTurns);
        if limited && self.cause.is_none() && self.guard.rounds() > self.host.max_turns {
            self.stop(Cause::Rounds);
        }
    }

    /// First step of stopping: the guest asks its agent.
    pub(super) fn stop(&mut self, cause: Cause) {
        self.cause = Some(cause);
        self.recording.host(What::Host(format!("stopping: {cause:?}")));
        if self.process.is_none() {
            return;
        }
        self.acted = false;
        self.leaving = Leaving::Interrupted(Instant::now() + self.host.stop_grace);
        self.input(Input::Command(Command::Interrupt(self.turn)));
    }

    /// The next step of stopping: SIGTERM, which custody follows up with SIGKILL; when even that brings no end in time,
    /// letting go of the process, which kills as well.
    pub(super) fn leave(&mut self) {
        let grace = self.host.stop_grace;
        let Some((_, process)) = &self.process else {
            self.leaving = Leaving::No;
            return;
        };
        let stop = ProcessCommand::Stop { signal: Signal::Terminate, grace };
        if matches!(self.leaving, Leaving::Terminated(_)) || process.commands.send(stop).is_err() {
            self.process = None;
            self.leaving = Leaving::No;
        } else {
            self.leaving = Leaving::Terminated(Instant::now() + grace + CUSTODY);
        }
    }
}
