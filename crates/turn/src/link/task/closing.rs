//! How a link ends: its agent leaves by itself, then SIGTERM, then SIGKILL.

use std::time::Duration;

use tokio::time::Instant;

use super::Task;
use crate::ProcessCommand;
use crate::link::Report;
use crate::recording::What;
use aetheel_model::agent::{Command, Input, Signal, TurnRef};

/// Time a one-shot agent has to leave by itself after its turn ended.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// Time a long-lived agent has to leave by itself after it was asked to.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);
/// Time custody has, beyond the grace, to report that everything is dead.
const CUSTODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time other turns have on an agent that ignored an interrupt.
const OTHER_TURNS_GRACE: Duration = Duration::from_secs(30);

/// How far a link is on its way out.
#[derive(Debug, Default)]
pub(super) struct Closing {
    step: Step,
    /// Takes no more turns, and ends with those that are open.
    retired: bool,
    /// Until when other turns may go on although the agent ignored an interrupt.
    other_turns_until: Option<Instant>,
    /// Until when it is kept without a turn.
    idle_until: Option<Instant>,
    /// A turn must end: without a process, nothing is waited for.
    interrupted: bool,
}

/// How far the agent is on its way out, and when the next step is due.
#[derive(Clone, Copy, Debug, Default)]
enum Step {
    #[default]
    Stays,
    /// It may leave by itself.
    MayLeave(Instant),
    /// SIGTERM was sent; custody follows up with SIGKILL.
    Terminated(Instant),
}

impl Step {
    fn due(self) -> Option<Instant> {
        match self {
            Self::Stays => None,
            Self::MayLeave(at) | Self::Terminated(at) => Some(at),
        }
    }
}

impl Closing {
    /// Whether no turn may begin here any more.
    pub(super) fn is_ending(&self) -> bool {
        self.retired || !self.agent_stays()
    }

    fn agent_stays(&self) -> bool {
        matches!(self.step, Step::Stays)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    pub(super) fn interrupt(&mut self) {
        self.interrupted = true;
    }

    pub(super) fn turn_begins(&mut self) {
        self.idle_until = None;
    }

    /// Keeps a link that is idle for so long from now on.
    pub(super) fn used(&mut self, idle: Duration) {
        if let Some(until) = &mut self.idle_until {
            *until = Instant::now() + idle;
        }
    }
}

impl Task {
    /// A turn has ended: is that the end of the link?
    pub(super) fn rest(&mut self) {
        self.state.set_turns(self.turns.len());
        if self.turns.is_empty() && self.closing.agent_stays() {
            if self.closing.retired || self.recording.is_long() {
                self.shut_down();
            } else {
                self.closing.idle_until = Some(Instant::now() + self.parts.host.link_idle);
            }
        }
    }

    /// The turn of a one-shot agent has ended: it may leave by itself.
    pub(super) fn await_exit(&mut self) {
        self.state.close();
        if self.closing.agent_stays() {
            self.closing.step = Step::MayLeave(Instant::now() + EXIT_GRACE);
        }
    }

    /// Takes no more turns, and ends when none is open.
    pub(super) fn retire(&mut self) {
        self.closing.retired = true;
        self.state.close();
        self.rest();
    }

    /// Asks a long-lived agent to leave.
    fn shut_down(&mut self) {
        self.state.close();
        self.closing.idle_until = None;
        self.recording.host(What::Host("the link is not needed any more".to_owned()));
        self.input(Input::Command(Command::Shutdown));
        self.closing.step = Step::MayLeave(Instant::now() + SHUTDOWN_GRACE);
    }

    /// The turn must not go on.
    pub(super) fn give_up(&mut self, turn: TurnRef) {
        if self.turns.len() > 1
            && let Some(open) = self.turns.give_up(turn.turn)
        {
            // Others are served by the same agent: they get the time to finish.
            self.recording.host(What::Host(
                "giving up on a turn; the link serves others, takes no more, and ends with them"
                    .to_owned(),
            ));
            let _ = open.reports.send(Report::Over(None));
            self.closing.other_turns_until = Some(Instant::now() + OTHER_TURNS_GRACE);
            self.retire();
        } else {
            self.closing.interrupt();
            self.terminate();
        }
    }

    /// The next step on the way out: SIGTERM, which custody follows up with SIGKILL; when even that
    /// brings no end in time, letting go of the processes, which kills as well.
    fn terminate(&mut self) {
        self.state.close();
        self.closing.idle_until = None;
        let grace = self.parts.host.stop_grace;
        let stop = ProcessCommand::Stop { signal: Signal::Terminate, grace };
        if matches!(self.closing.step, Step::Terminated(_)) || !self.processes.command_all(&stop) {
            self.processes.kill();
        } else {
            self.closing.step = Step::Terminated(Instant::now() + grace + CUSTODY_TIMEOUT);
        }
    }

    /// Does what is due.
    pub(super) fn clock(&mut self) {
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let timers: Vec<u32> =
            self.timers.iter().filter(|(_, at)| **at <= now).map(|(timer, _)| *timer).collect();
        for timer in timers {
            self.timers.remove(&timer);
            self.input(Input::Timer(timer));
        }
        if is_due(self.closing.step.due()) {
            self.terminate();
        } else if is_due(self.closing.other_turns_until) {
            self.closing.other_turns_until = None;
            self.terminate();
        } else if is_due(self.closing.idle_until) {
            self.retire();
        }
    }

    /// When `clock` is needed next.
    pub(super) fn deadline(&self) -> Instant {
        let Closing { step, other_turns_until, idle_until, .. } = &self.closing;
        let closing = [step.due(), *other_turns_until, *idle_until];
        let times = self.timers.values().copied().chain(closing.into_iter().flatten());
        // Without any, only others can bring news; looking again now and then does no harm.
        times.min().unwrap_or_else(|| Instant::now() + CUSTODY_TIMEOUT)
    }
}
