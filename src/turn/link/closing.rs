//! How a link ends: the agent leaves by itself, SIGTERM, SIGKILL.

use std::time::Duration;

use tokio::time::Instant;

use super::task::Task;
use super::{Report, Request};
use crate::agent::{Command, Input, Signal, TurnRef};
use crate::turn::ProcessCommand;
use crate::turn::recording::What;

/// Time a one-shot agent has to leave by itself after its turn ended.
const LINGER: Duration = Duration::from_millis(500);
/// Time a long-lived agent has to leave by itself after it was asked to.
const FAREWELL: Duration = Duration::from_secs(3);
/// Time custody has, beyond the grace, to report that everything is dead.
const CUSTODY: Duration = Duration::from_secs(10);
/// Time other turns have on an agent that ignored an interrupt.
const PITY: Duration = Duration::from_secs(30);

/// How far the agent is on its way out, and when the next step is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaving {
    No,
    /// The agent may leave by itself.
    Lingering(Instant),
    /// SIGTERM was sent; custody follows up with SIGKILL.
    Terminated(Instant),
}

impl Leaving {
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Self::No => None,
            Self::Lingering(at) | Self::Terminated(at) => Some(at),
        }
    }
}

impl Task {
    /// Whether no turn may begin here any more.
    pub(super) fn is_ending(&self) -> bool {
        self.retired || !matches!(self.leaving, Leaving::No)
    }

    /// A turn has ended: is that the end of the link?
    pub(super) fn rest(&mut self) {
        self.state.set_turns(self.turns.len());
        if self.turns.is_empty() && matches!(self.leaving, Leaving::No) {
            if self.retired || self.recording.is_long() {
                self.farewell();
            } else {
                self.idle_until = Some(Instant::now() + self.parts.host.link_idle);
            }
        }
    }

    /// The turn of a one-shot agent has ended: it may leave by itself.
    pub(super) fn linger(&mut self) {
        self.close();
        if matches!(self.leaving, Leaving::No) {
            self.leaving = Leaving::Lingering(Instant::now() + LINGER);
        }
    }

    /// Takes no more turns, and ends when none is open.
    pub(super) fn retire(&mut self) {
        self.retired = true;
        self.close();
        self.rest();
    }

    /// Asks a long-lived agent to leave.
    fn farewell(&mut self) {
        self.close();
        self.idle_until = None;
        self.recording.host(What::Host("the link is not needed any more".to_owned()));
        self.input(Input::Command(Command::Shutdown));
        self.leaving = Leaving::Lingering(Instant::now() + FAREWELL);
    }

    /// The turn must not go on.
    pub(super) fn give_up(&mut self, turn: TurnRef) {
        if self.turns.len() > 1
            && let Some(open) = self.turns.remove(&turn.turn)
        {
            // Others are served by the same agent: they get the time to finish.
            self.recording.host(What::Host(
                "giving up on a turn; the link serves others, takes no more, and ends with them"
                    .to_owned(),
            ));
            let _ = open.reports.send(Report::Over(None));
            self.doomed = Some(Instant::now() + PITY);
            self.retire();
        } else {
            self.interrupted = true;
            self.leave();
        }
    }

    /// The next step on the way out: SIGTERM, which custody follows up with SIGKILL; when even that
    /// brings no end in time, letting go of the processes, which kills as well.
    pub(super) fn leave(&mut self) {
        self.close();
        self.idle_until = None;
        let grace = self.parts.host.stop_grace;
        let stop = ProcessCommand::Stop { signal: Signal::Terminate, grace };
        if matches!(self.leaving, Leaving::Terminated(_)) || !self.command_all(&stop) {
            self.processes.clear();
        } else {
            self.leaving = Leaving::Terminated(Instant::now() + grace + CUSTODY);
        }
    }

    fn close(&self) {
        self.state.closing.store(true, std::sync::atomic::Ordering::Release);
    }

    /// Does what is due.
    pub(super) fn clock(&mut self) {
        let now = Instant::now();
        let due: Vec<u32> =
            self.timers.iter().filter(|(_, at)| **at <= now).map(|(timer, _)| *timer).collect();
        for timer in due {
            self.timers.remove(&timer);
            self.input(Input::Timer(timer));
        }
        if self.leaving.due().is_some_and(|at| at <= now) {
            self.leave();
        } else if self.doomed.is_some_and(|at| at <= now) {
            self.doomed = None;
            self.leave();
        } else if self.idle_until.is_some_and(|at| at <= now) {
            self.retire();
        }
    }

    /// When `clock` is needed next.
    pub(super) fn deadline(&self) -> Instant {
        let times = self
            .timers
            .values()
            .copied()
            .chain(self.leaving.due())
            .chain(self.doomed)
            .chain(self.idle_until);
        // Without any, only others can bring news; looking again now and then does no harm.
        times.min().unwrap_or_else(|| Instant::now() + CUSTODY)
    }

    /// Turns away what was asked of a link that has ended.
    pub(super) fn turn_away(requests: &mut tokio::sync::mpsc::UnboundedReceiver<Request>) {
        requests.close();
        while let Ok(request) = requests.try_recv() {
            if let Request::Begin(begin) = request {
                let _ = begin.reports.send(Report::Refused);
            }
        }
    }
}
