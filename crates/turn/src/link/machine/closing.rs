//! Ends turns and the link: its agent may exit by itself, then gets SIGTERM, then SIGKILL.

use std::time::Duration;

use super::{LinkEffect, LinkMachine};
use crate::link::LinkReport;
use crate::link::turns::LinkTurns;
use aetheel_model::agent::{HostCommand, Input, TurnRef};

/// Time for a one-shot agent to exit by itself after its turn ended.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// Time for a long-lived agent to exit by itself after it was asked to.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);
/// Time, in addition to the grace period, for the launcher to report that all processes have ended.
const CUSTODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for other turns to finish on an agent that ignored an interrupt.
const OTHER_TURNS_GRACE: Duration = Duration::from_secs(30);

/// The state of a link that is ending or may end. Times are in milliseconds of the link's time.
#[derive(Debug, Default)]
pub(in crate::link) struct ClosingState {
    step: ExitPhase,
    /// Whether the link accepts no more turns and ends with the open ones.
    retired: bool,
    /// The end of the time in which other turns may continue although the agent ignored an
    /// interrupt.
    other_turns_until: Option<f64>,
    /// When the link closes if no turn begins on it.
    idle_until: Option<f64>,
    /// Whether a turn must end, so that the link waits for nothing once it has no process.
    interrupted: bool,
}

/// The steps by which an agent ends, with the time of the next step.
#[derive(Clone, Copy, Debug, Default)]
enum ExitPhase {
    #[default]
    Stays,
    /// The agent may exit by itself.
    MayLeave(f64),
    /// SIGTERM was sent. The launcher sends SIGKILL after the grace period.
    Terminated(f64),
}

/// Returns the time after a delay.
fn after(now: f64, delay: Duration) -> f64 {
    now + delay.as_secs_f64() * 1000.0
}

impl ClosingState {
    /// Returns whether the link accepts no more turns.
    pub(in crate::link) fn is_ending(&self) -> bool {
        self.retired || !self.agent_stays()
    }

    fn agent_stays(&self) -> bool {
        matches!(self.step, ExitPhase::Stays)
    }

    pub(in crate::link) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    pub(super) fn interrupt(&mut self) {
        self.interrupted = true;
    }

    pub(super) fn turn_begins(&mut self) {
        self.idle_until = None;
    }

    /// Restarts the idle time of a link without turns.
    pub(super) fn restart_idle(&mut self, now: f64, idle: Duration) {
        if let Some(until) = &mut self.idle_until {
            *until = after(now, idle);
        }
    }

    /// Lets a long-lived agent exit by itself, because it was asked to.
    pub(super) fn leave(&mut self, now: f64) {
        if self.agent_stays() {
            self.step = ExitPhase::MayLeave(after(now, SHUTDOWN_GRACE));
        }
    }

    /// Lets a one-shot agent exit by itself after its turn.
    pub(super) fn await_exit(&mut self, now: f64) {
        if self.agent_stays() {
            self.step = ExitPhase::MayLeave(after(now, EXIT_GRACE));
        }
    }

    /// Decides after the end of a turn whether the link ends too. Without turns, it ends after the
    /// time `idle`.
    fn turn_ended(&mut self, now: f64, turns: &mut LinkTurns, idle: Duration) {
        if !turns.is_empty() || !self.agent_stays() {
            return;
        }
        if self.retired {
            // A long-lived agent is asked to exit.
            self.idle_until = None;
            self.leave(now);
            turns.effects.note("the link is not needed any more");
            turns.effects.push(LinkEffect::Input(Input::Command(HostCommand::Shutdown)));
        } else {
            self.idle_until = Some(after(now, idle));
        }
    }

    /// Returns when something is due.
    fn deadlines(&self) -> impl Iterator<Item = f64> {
        [self.step_due(), self.other_turns_until, self.idle_until].into_iter().flatten()
    }

    fn step_due(&self) -> Option<f64> {
        match self.step {
            ExitPhase::Stays => None,
            ExitPhase::MayLeave(at) | ExitPhase::Terminated(at) => Some(at),
        }
    }
}

impl LinkMachine {
    /// Removes a turn that its driver has finished.
    pub(super) fn end_turn(&mut self, now: f64, id: &str) {
        let Some(open) = self.turns.end(id) else { return };
        self.calls.end(open.turn.turn, &mut self.turns);
        if open.done {
            self.turn_ended(now);
        } else {
            if self.turns.is_empty() {
                // The driver was dropped in the middle of the turn, for example by a panic. The
                // agent must not continue.
                self.kill();
            }
            self.retire(now);
        }
    }

    fn turn_ended(&mut self, now: f64) {
        self.closing.turn_ended(now, &mut self.turns, self.settings.idle);
    }

    /// Begins the times again after a restart of the gateway, during which nothing was due.
    pub(in crate::link) fn resume(&mut self, now: f64) {
        if let ExitPhase::MayLeave(at) = &mut self.closing.step {
            *at = after(now, EXIT_GRACE);
        }
        self.turn_ended(now);
    }

    /// Accepts no more turns, and ends the link when no turn is open.
    pub(in crate::link) fn retire(&mut self, now: f64) {
        self.closing.retired = true;
        self.turn_ended(now);
    }

    /// Ends a turn by force. If other turns use the same agent, they get some time to finish.
    pub(in crate::link) fn give_up(&mut self, now: f64, turn: TurnRef) {
        if self.turns.len() > 1 && self.turns.give_up(turn.turn) {
            // Other turns use the same agent, so they get time to finish.
            self.turns.effects.note(
                "giving up on a turn; the link serves others, takes no more, and ends with them",
            );
            self.turns.effects.report(turn.turn, LinkReport::Over(None));
            self.calls.end(turn.turn, &mut self.turns);
            self.closing.other_turns_until = Some(after(now, OTHER_TURNS_GRACE));
            self.retire(now);
        } else {
            self.closing.interrupt();
            self.terminate(now);
        }
    }

    /// Takes the next step to end the agent: SIGTERM, which the launcher follows with SIGKILL. If
    /// the processes do not end in time, they are killed.
    fn terminate(&mut self, now: f64) {
        self.closing.idle_until = None;
        if matches!(self.closing.step, ExitPhase::Terminated(_)) || self.processes.is_empty() {
            return self.kill();
        }
        let grace = self.settings.stop_grace;
        self.closing.step = ExitPhase::Terminated(after(now, grace + CUSTODY_TIMEOUT));
        self.turns.effects.push(LinkEffect::Terminate(grace));
    }

    /// Ends the work of a guest that failed: closes the questions, because nothing can pass on an
    /// answer, and drops the timers.
    pub(in crate::link) fn drain(&mut self) {
        self.timers.clear();
        self.turns.report_all(|| LinkReport::GuestFailed);
        for ask in self.turns.asks.keys().copied().collect::<Vec<_>>() {
            self.turns.withdraw(ask);
        }
    }

    /// Returns whether the remaining output of the agent is worth recording: it serves only this
    /// turn, exits by itself, and is not being stopped.
    pub(in crate::link) fn can_drain(&self) -> bool {
        self.settings.is_one_shot
            && !self.turns.running().is_empty()
            && !self.processes.any_listens()
            && !self.closing.interrupted
            && !self.closing.is_ending()
    }

    /// Kills all processes. Their ends are not recorded.
    pub(in crate::link) fn kill(&mut self) {
        self.processes.clear();
        self.turns.effects.push(LinkEffect::Kill);
    }

    /// Handles everything that is due: the guest's timers and the steps of ending.
    pub(in crate::link) fn on_deadline(&mut self, now: f64) {
        let is_due = |at: Option<f64>| at.is_some_and(|at| at <= now);
        let timers: Vec<u32> =
            self.timers.iter().filter(|(_, at)| **at <= now).map(|(timer, _)| *timer).collect();
        for timer in timers {
            self.timers.remove(&timer);
            self.turns.effects.push(LinkEffect::Input(Input::Timer(timer)));
        }
        if is_due(self.closing.step_due()) {
            self.terminate(now);
        } else if is_due(self.closing.other_turns_until) {
            self.closing.other_turns_until = None;
            self.terminate(now);
        } else if is_due(self.closing.idle_until) {
            self.retire(now);
        }
    }

    /// Returns when [`LinkMachine::on_deadline`] must be called next.
    pub(in crate::link) fn deadline(&self) -> Option<f64> {
        let times = self.timers.values().copied().chain(self.closing.deadlines());
        times.min_by(f64::total_cmp)
    }
}
