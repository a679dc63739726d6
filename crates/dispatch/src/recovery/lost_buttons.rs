//! Presses of the buttons below notices about lost replies.

use std::time::Duration;

use super::offer::{OfferEffect, OfferRefusal};
use super::redeliver::{Redelivery, delivery_event};
use super::unread::{ALL, ONE};
use crate::questions::Person;
use aetheel_model::event::Lane;
use aetheel_store::workspace::{LostState, LostTurn};

/// The longest time to wait for the result of a button press. Discord requires a response within
/// three seconds.
const PRESS_TIMEOUT: Duration = Duration::from_millis(1_800);

impl Redelivery {
    /// Handles a press of a button about lost replies. Returns `None` for any other button.
    pub(super) async fn press_lost_button(
        &self,
        id: &str,
        person: &Person,
        admitted: bool,
    ) -> Option<Result<OfferEffect, OfferRefusal>> {
        if let Some(turn) = id.strip_prefix(ONE) {
            return Some(if admitted {
                self.press_one(turn).await
            } else {
                Err(OfferRefusal::NotAdmitted)
            });
        }
        let (digest, backend) = id.strip_prefix(ALL)?.split_once('-')?;
        // These turns may belong to several people, so only the owner and approvers qualify.
        let operator = self.shared.questions.may_decide(None, &Lane::Hook(String::new()), person);
        Some(if operator {
            self.press_all(backend, digest).await
        } else {
            Err(OfferRefusal::NotOperator)
        })
    }

    async fn press_one(&self, turn: &str) -> Result<OfferEffect, OfferRefusal> {
        let (this, turn) = (self.clone(), turn.to_owned());
        // Continues after Discord's time limit.
        let reading = self.shared.tasks.spawn(async move { this.deliver_lost(&turn).await });
        match tokio::time::timeout(PRESS_TIMEOUT, reading).await {
            Ok(Ok(delivered)) => delivered.map(|()| OfferEffect::Delivered),
            Ok(Err(_)) => Err(OfferRefusal::Gone),
            Err(_) => Err(OfferRefusal::Reading),
        }
    }

    /// Delivers the replies of a backend. The notice with the button was about the component whose
    /// digest begins with `announced`.
    async fn press_all(&self, backend: &str, announced: &str) -> Result<OfferEffect, OfferRefusal> {
        let serving = self.shared.deps.backends.get(backend);
        let serving = serving.map(|backend| backend.generation().digest.clone());
        let lost = self.shared.lost_replies.notes().all().await;
        // A reply is marked as readable only after its notice was posted, which may be after the
        // press. Until then, only those count as unreadable that this component failed to read.
        let open = |turn: &LostTurn| {
            let untried = turn.state == LostState::Lost && turn.tried != serving;
            turn.backend == backend
                && (turn.state == LostState::Readable || untried)
                && self.shared.lost_replies.is_ours(turn)
                && !self.shared.durability.is_known(&delivery_event(turn))
        };
        let turns: Vec<LostTurn> = lost.into_iter().filter(open).collect();
        if turns.is_empty() {
            return Err(OfferRefusal::Gone);
        }
        let readable = serving.is_some_and(|digest| digest.starts_with(announced))
            || turns.iter().any(|turn| turn.state == LostState::Readable);
        let turns: Vec<String> = turns.into_iter().map(|turn| turn.turn).collect();
        let this = self.clone();
        // Continues after Discord's time limit.
        let delivery = self.shared.tasks.spawn(async move { this.deliver_each(&turns).await });
        match tokio::time::timeout(PRESS_TIMEOUT, delivery).await {
            Ok(Ok((0, refusal))) => Err(refusal.unwrap_or(OfferRefusal::Gone)),
            Ok(Ok(_)) => Ok(OfferEffect::Delivered),
            Ok(Err(_)) => Err(OfferRefusal::Gone),
            Err(_) if readable => Ok(OfferEffect::Delivered),
            Err(_) => Err(OfferRefusal::Reading),
        }
    }
}
