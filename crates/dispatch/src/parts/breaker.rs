//! Lanes wait while their backend is paused. A backend starts no agents for a while if it failed too
//! often. A lane whose agent still runs does not wait.

use std::sync::Arc;

use async_trait::async_trait;

use crate::outlet::{TurnAnswer, messages};
use crate::part::{Gate, Gateway, NextTurn, Outcome, PartOfTurn, TurnContext, TurnPart, Wait};
use aetheel_model::queue::LaneHold;

/// Lanes wait while their backend is paused.
pub struct Breaker;

struct BreakerOfTurn(Arc<TurnContext>);

#[async_trait]
impl TurnPart for Breaker {
    fn name(&self) -> &'static str {
        "breaker"
    }

    async fn wait(&self, Gateway { shared }: Gateway<'_>, next: NextTurn<'_>) -> Option<Wait> {
        let (name, _) = shared.channels.backend_of(next.lane).await;
        let backend = shared.serving(&name, next.lane)?;
        let descriptor = backend.descriptor();
        let remaining = backend.paused()?;
        if shared.links.is_open(&descriptor.name, next.lane) {
            return None;
        }
        Some(Wait {
            part: self.name(),
            hold: LaneHold::Everybody,
            key: "backend".to_owned(),
            summary: messages::paused_reason(descriptor.label()),
            log_line: "event waits: its backend failed too often and is paused",
            notice: Some(messages::paused_message(descriptor.label())),
            status: None,
            offers: Vec::new(),
            listed: None,
            until: shared.now().checked_add(remaining).ok(),
        })
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(BreakerOfTurn(Arc::clone(turn))))
    }
}

#[async_trait]
impl PartOfTurn for BreakerOfTurn {
    async fn admit(&mut self) -> Gate {
        self.0.gate(&Breaker).await
    }

    async fn conclude(&mut self, answer: &mut TurnAnswer) -> Option<Outcome> {
        if !answer.paused || self.0.stopped().is_some() {
            return None;
        }
        // The next start begins the turn, too.
        let _ = self.0.progress.leave_to_next_start();
        Some(Outcome::Wait(None))
    }
}
