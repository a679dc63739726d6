//! What people tell the running turn: decisions and messages.

use std::collections::HashMap;

use tokio::sync::{mpsc, oneshot};

use super::Driver;
use crate::agent::{Answer, AskKey, Command, Decision, DeliveryWish, Input, Steer, SteerOutcome, Steered};
use crate::turn::Steering;

/// Messages of people, and those the guest has not said anything about yet.
#[derive(Debug)]
pub(super) struct Steers {
    messages: mpsc::UnboundedReceiver<Steering>,
    last: u32,
    waiting: HashMap<u32, oneshot::Sender<SteerOutcome>>,
}

impl Steers {
    pub(super) fn new(messages: mpsc::UnboundedReceiver<Steering>) -> Self {
        Self { messages, last: 0, waiting: HashMap::new() }
    }

    pub(super) async fn next(&mut self) -> Option<Steering> {
        self.messages.recv().await
    }
}

impl Driver<'_> {
    pub(super) fn decided(&mut self, ask: AskKey, decision: Decision) {
        if self.asks.remove(&ask) {
            self.input(Input::Command(Command::Answer(Answer { ask, decision })));
        }
    }

    pub(super) fn steer(&mut self, steering: Steering) {
        self.steers.last += 1;
        let message = self.steers.last;
        self.steers.waiting.insert(message, steering.outcome);
        self.input(Input::Command(Command::Steer(Steer {
            session: self.turn.session,
            turn: self.turn.turn,
            message,
            parts: steering.parts,
            delivery: DeliveryWish::Steer,
            fresh_id: uuid::Uuid::new_v4().to_string(),
        })));
    }

    pub(super) fn steered(&mut self, steered: Steered) {
        match self.steers.waiting.remove(&steered.message) {
            // Whoever asked may have gone.
            Some(outcome) => drop(outcome.send(steered.outcome)),
            None => self.dropped("steered", "no such message waits"),
        }
    }
}
