//! The steps by which a turn is stopped, and everything else that is due at a time. Pure.

use std::time::{Duration, Instant};

use super::effects::TurnEffect;
use super::machine::{TurnMachine, TurnPhase};
use crate::AskCloseReason;
use crate::clock::Overdue;
use crate::link::LinkRequest;
use crate::stop::Cause;
use aetheel_model::agent::AskDecision;

/// Time, in addition to the grace period, that a link has to end a turn it was asked to give up.
const CUSTODY_TIMEOUT: Duration = Duration::from_secs(15);

impl TurnMachine {
    /// Handles everything that is due: expired questions, the steps of stopping, and time limits.
    pub(super) fn on_deadline(&mut self, now: Instant) {
        for ask in self.timer.expired_asks(now) {
            tracing::info!(ask, "the agent's question expired without an answer");
            self.act(TurnEffect::Request(LinkRequest::Answer(ask, AskDecision::Dismissed)));
            self.settle(now, ask, AskCloseReason::Expired);
        }
        match self.stopping.phase {
            TurnPhase::Interrupted(at) if at <= now => self.give_up(now),
            TurnPhase::GivenUp(at) if at <= now => self.stopping.phase = TurnPhase::Over,
            _ => {}
        }
        match self.timer.overdue(now) {
            Some(Overdue::Budget) => self.stop_for(now, Cause::TimedOut),
            Some(Overdue::Silence) => self.stop_for(now, Cause::Silent),
            None => {}
        }
    }

    /// Returns when `on_deadline` must be called next.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        let step = match self.stopping.phase {
            TurnPhase::Interrupted(at) | TurnPhase::GivenUp(at) => Some(at),
            TurnPhase::Running | TurnPhase::Over => None,
        };
        let limit = self.timer.limit().filter(|_| self.may_stop());
        let times = [step, self.timer.next_expiry(), limit];
        // If nothing is due, only the link can wake the driver. Waking up now and then is harmless.
        times.into_iter().flatten().min().unwrap_or(now + CUSTODY_TIMEOUT)
    }

    /// Returns whether nothing has stopped or ended the turn yet.
    pub(super) fn may_stop(&self) -> bool {
        self.stopping.cause.is_none() && !self.guard.is_done()
    }

    /// Takes the first step of stopping, unless the turn ends already: the guest asks its agent to
    /// stop.
    pub(super) fn stop_for(&mut self, now: Instant, cause: Cause) {
        if self.may_stop() {
            self.stopping.cause = Some(cause);
            self.interrupt(now);
        }
    }

    /// Asks the guest, and begins its grace period.
    pub(super) fn interrupt(&mut self, now: Instant) {
        self.stopping.phase = TurnPhase::Interrupted(now + self.rules.limits.stop_grace);
        self.act(TurnEffect::Request(LinkRequest::Interrupt(self.rules.turn)));
    }

    /// Takes the second step of stopping: the link ends the agent.
    pub(super) fn give_up(&mut self, now: Instant) {
        if !self.rules.is_one_shot {
            tracing::warn!("the agent does not react to being interrupted; its link is given up");
        }
        let until = now + self.rules.limits.stop_grace + CUSTODY_TIMEOUT;
        self.stopping.phase = TurnPhase::GivenUp(until);
        self.act(TurnEffect::Request(LinkRequest::GiveUp(self.rules.turn)));
    }
}
