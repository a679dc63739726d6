//! The steps by which a turn is stopped, and everything else that is due at a time.

use std::time::Duration;

use tokio::time::Instant;

use super::Driver;
use crate::AskCloseReason;
use crate::clock::Overdue;
use crate::link::LinkRequest;
use crate::stop::Cause;
use aetheel_model::agent::AskDecision;

/// Time, in addition to the grace period, that a link has to end a turn it was asked to give up.
const CUSTODY_TIMEOUT: Duration = Duration::from_secs(15);

/// The steps by which a turn ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum TurnPhase {
    #[default]
    Running,
    /// The guest was asked to interrupt the turn. At this time the link is asked to give it up.
    Interrupted(Instant),
    /// The link was asked to give up the turn. At this time the driver stops waiting for it.
    GivenUp(Instant),
    /// The link reports nothing more, or the driver no longer waits for it.
    Over,
}

/// How far a turn is stopped.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    /// The reason why the host stopped the turn, if it did.
    pub(super) cause: Option<Cause>,
    pub(super) phase: TurnPhase,
}

impl Stopping {
    /// Notes that the guest is asked to interrupt the turn.
    pub(super) fn begin(&mut self, cause: Cause, grace: Duration) {
        self.cause = Some(cause);
        self.phase = TurnPhase::Interrupted(Instant::now() + grace);
    }

    /// Returns whether the guest was asked to interrupt the turn, and the link was not asked yet.
    pub(super) fn is_interrupted(&self) -> bool {
        matches!(self.phase, TurnPhase::Interrupted(_))
    }

    /// Returns when the next step is due.
    fn due(&self) -> Option<Instant> {
        match self.phase {
            TurnPhase::Interrupted(at) | TurnPhase::GivenUp(at) => Some(at),
            TurnPhase::Running | TurnPhase::Over => None,
        }
    }
}

impl Driver<'_> {
    /// Handles everything that is due: expired questions, the steps of stopping, and time limits.
    pub(super) fn clock(&mut self) {
        let now = Instant::now();
        for ask in self.timer.expired_asks(now) {
            tracing::info!(ask, "the agent's question expired without an answer");
            self.slot.link.send(LinkRequest::Answer(ask, AskDecision::Dismissed));
            self.settle(ask, AskCloseReason::Expired);
        }
        if self.stopping.due().is_some_and(|at| at <= now) {
            match self.stopping.is_interrupted() {
                true => self.give_up(),
                false => self.stopping.phase = TurnPhase::Over,
            }
        }
        match self.timer.overdue(now) {
            Some(Overdue::Budget) => self.stop_for(Cause::TimedOut),
            Some(Overdue::Silence) => self.stop_for(Cause::Silent),
            None => {}
        }
    }

    /// Returns when `clock` must be called next.
    pub(super) fn deadline(&self) -> Instant {
        let limit = self.timer.limit().filter(|_| self.may_stop());
        let times = [self.stopping.due(), self.timer.next_expiry(), limit];
        // If nothing is due, only the link can wake the driver. Waking up now and then is harmless.
        times.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + CUSTODY_TIMEOUT)
    }

    /// Returns whether nothing has stopped or ended the turn yet.
    pub(super) fn may_stop(&self) -> bool {
        self.stopping.cause.is_none() && !self.guard.is_done()
    }

    pub(super) fn stop_for(&mut self, cause: Cause) {
        if self.may_stop() {
            self.stop(cause);
        }
    }

    /// Takes the first step of stopping: the guest asks its agent to stop.
    pub(super) fn stop(&mut self, cause: Cause) {
        self.stopping.begin(cause, self.host.limits.stop_grace);
        self.slot.link.send(LinkRequest::Interrupt(self.slot.turn));
    }

    /// Takes the second step of stopping: the link ends the agent.
    pub(super) fn give_up(&mut self) {
        if !self.is_one_shot() {
            tracing::warn!("the agent does not react to being interrupted; its link is given up");
        }
        let until = Instant::now() + self.host.limits.stop_grace + CUSTODY_TIMEOUT;
        self.stopping.phase = TurnPhase::GivenUp(until);
        self.slot.link.send(LinkRequest::GiveUp(self.slot.turn));
    }
}
