//! Continues a turn that began before a restart of the gateway.

use std::collections::BTreeMap;

use super::Driver;
use super::judging::AskedQuestion;
use crate::link::LinkReport;
use crate::stop::Cause;
use crate::turn_result::StopReason;

impl Driver<'_> {
    /// Processes all reports from before a restart of the gateway.
    ///
    /// It does so without a pause, so that people never see less of the turn than before. Questions
    /// that are still open are asked at the end.
    pub(super) async fn catch_up(&mut self) {
        let (mut asks, mut ruled, mut stopping) = (BTreeMap::new(), None, false);
        let (mut calls, mut at_ms) = (BTreeMap::new(), None);
        let caught_up = loop {
            match self.slot.reports.recv().await {
                Some(LinkReport::CaughtUp { spent, elapsed }) => break Some((spent, elapsed)),
                Some(LinkReport::Event(event)) => {
                    self.observed.text |= event.answer().is_some();
                    if let Some(event) = self.guard.event(event) {
                        self.audience.replay_event(&event, self.guard.transcript(), at_ms);
                    }
                }
                Some(LinkReport::Ask(ask)) => {
                    self.observed.asked = true;
                    match ruled.take() {
                        Some(ruling) => self.audience.past_ruling(&ask, &ruling),
                        None => self.audience.past_interruption(Some(&ask)),
                    }
                    asks.insert(ask.ask, ask);
                }
                Some(LinkReport::Replayed(at)) => at_ms = Some(at),
                Some(LinkReport::Ruled(ruling)) => ruled = Some(ruling),
                Some(LinkReport::Steered) => self.audience.past_interruption(None),
                Some(LinkReport::Delegated(call)) => {
                    self.audience.past_call(&call);
                    calls.insert(call.key, call);
                }
                Some(LinkReport::Withdrawn(ask)) => drop((asks.remove(&ask), calls.remove(&ask))),
                Some(LinkReport::Answered(ask, decision)) => {
                    calls.remove(&ask);
                    if let Some(ask) = asks.remove(&ask) {
                        self.audience.past_answer(&ask, &decision);
                    }
                }
                Some(LinkReport::Stopping) => stopping = true,
                // The turn is over, or its link refused it.
                report @ (None | Some(LinkReport::Over(_) | LinkReport::Refused)) => {
                    self.on_report(report);
                    break None;
                }
                report => self.on_report(report),
            }
        };
        if let Some((spent, elapsed)) = caught_up {
            self.timer.resume(spent, elapsed);
        }
        calls.values().for_each(|call| self.delegate(call));
        for ask in asks.into_values() {
            self.ask(AskedQuestion { ask, is_repeated: true });
        }
        if stopping && self.may_stop() {
            self.stopping.begin(Cause::Asked(StopReason::User), self.host.limits.stop_grace);
        }
    }
}
