//! Ends a link: its agent may exit by itself, then gets SIGTERM, then SIGKILL.

use std::time::Duration;

use tokio::time::Instant;

use super::LinkTask;
use crate::ProcessCommand;
use crate::link::LinkReport;
use aetheel_model::agent::{HostCommand, Input, Signal, TurnRef};
use aetheel_recording::EntryKind;

/// Time for a one-shot agent to exit by itself after its turn ended.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// Time for a long-lived agent to exit by itself after it was asked to.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);
/// Time, in addition to the grace period, for the launcher to report that all processes have ended.
const CUSTODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for other turns to finish on an agent that ignored an interrupt.
const OTHER_TURNS_GRACE: Duration = Duration::from_secs(30);

/// The state of a link that is ending or may end.
#[derive(Debug, Default)]
pub(super) struct ClosingState {
    step: ExitPhase,
    /// Whether the link accepts no more turns and ends with the open ones.
    retired: bool,
    /// The end of the time in which other turns may continue although the agent ignored an
    /// interrupt.
    other_turns_until: Option<Instant>,
    /// When the link closes if no turn begins on it.
    idle_until: Option<Instant>,
    /// Whether a turn must end, so that the link waits for nothing once it has no process.
    interrupted: bool,
}

/// The steps by which an agent ends, with the time of the next step.
#[derive(Clone, Copy, Debug, Default)]
enum ExitPhase {
    #[default]
    Stays,
    /// The agent may exit by itself.
    MayLeave(Instant),
    /// SIGTERM was sent. The launcher sends SIGKILL after the grace period.
    Terminated(Instant),
}

impl ExitPhase {
    fn due(self) -> Option<Instant> {
        match self {
            Self::Stays => None,
            Self::MayLeave(at) | Self::Terminated(at) => Some(at),
        }
    }
}

impl ClosingState {
    /// Returns whether the link accepts no more turns.
    pub(super) fn is_ending(&self) -> bool {
        self.retired || !self.agent_stays()
    }

    fn agent_stays(&self) -> bool {
        matches!(self.step, ExitPhase::Stays)
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

    /// Restarts the idle time of a link without turns.
    pub(super) fn used(&mut self, idle: Duration) {
        if let Some(until) = &mut self.idle_until {
            *until = Instant::now() + idle;
        }
    }
}

impl LinkTask {
    /// Decides after the end of a turn whether the link ends too.
    pub(super) fn turn_ended(&mut self) {
        self.state.set_turns(self.turns.len());
        if self.turns.is_empty() && self.closing.agent_stays() {
            if self.closing.retired || self.recording.should_rotate() {
                self.shut_down();
            } else {
                self.closing.idle_until = Some(Instant::now() + self.deps.host.limits.link_idle);
            }
        }
    }

    /// Lets a one-shot agent exit by itself after its turn.
    pub(super) fn await_exit(&mut self) {
        self.state.close();
        if self.closing.agent_stays() {
            self.closing.step = ExitPhase::MayLeave(Instant::now() + EXIT_GRACE);
        }
    }

    /// Accepts no more turns, and ends the link when no turn is open.
    pub(super) fn retire(&mut self) {
        self.closing.retired = true;
        self.state.close();
        self.turn_ended();
    }

    /// Asks a long-lived agent to exit.
    fn shut_down(&mut self) {
        self.state.close();
        self.closing.idle_until = None;
        self.recording.host(EntryKind::Host("the link is not needed any more".to_owned()));
        self.input(Input::Command(HostCommand::Shutdown));
        self.closing.step = ExitPhase::MayLeave(Instant::now() + SHUTDOWN_GRACE);
    }

    /// Ends a turn by force. If other turns use the same agent, they get some time to finish.
    pub(super) fn give_up(&mut self, turn: TurnRef) {
        if self.turns.len() > 1
            && let Some(open) = self.turns.give_up(turn.turn)
        {
            // Other turns use the same agent, so they get time to finish.
            self.recording.host(EntryKind::Host(
                "giving up on a turn; the link serves others, takes no more, and ends with them"
                    .to_owned(),
            ));
            let _ = open.reports.send(LinkReport::Over(None));
            self.end_calls(turn);
            self.closing.other_turns_until = Some(Instant::now() + OTHER_TURNS_GRACE);
            self.retire();
        } else {
            self.closing.interrupt();
            self.terminate();
        }
    }

    /// Takes the next step to end the agent: SIGTERM, which the launcher follows with SIGKILL. If
    /// the processes do not end in time, drops them, which kills them as well.
    fn terminate(&mut self) {
        self.state.close();
        self.closing.idle_until = None;
        let grace = self.deps.host.limits.stop_grace;
        let stop = ProcessCommand::Stop { signal: Signal::Terminate, grace };
        if matches!(self.closing.step, ExitPhase::Terminated(_))
            || !self.processes.command_all(&stop)
        {
            self.processes.kill();
        } else {
            self.closing.step = ExitPhase::Terminated(Instant::now() + grace + CUSTODY_TIMEOUT);
        }
    }

    /// Handles everything that is due: the guest's timers and the steps of ending.
    pub(super) fn on_deadline(&mut self) {
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

    /// Returns when [`LinkTask::on_deadline`] must be called next.
    pub(super) fn deadline(&self) -> Instant {
        let ClosingState { step, other_turns_until, idle_until, .. } = &self.closing;
        let closing = [step.due(), *other_turns_until, *idle_until];
        let times = self.timers.values().copied().chain(closing.into_iter().flatten());
        // If nothing is due, only other events can wake the link. Waking up now and then is
        // harmless.
        times.min().unwrap_or_else(|| Instant::now() + CUSTODY_TIMEOUT)
    }
}
