//! The lanes that wait for the end of a usage limit or at the cap of a budget, for pages that show
//! all of them.
//!
//! The decisions are those of the buttons below the notice in the lane. Tested by
//! `tests/dispatch/waits.rs`.

use std::sync::Arc;

use jiff::Timestamp;

use super::paused::event_wait;
use super::wait_choices::WaitChoices;
use crate::Shared;
use crate::budgets::decisions::Budgets;
use crate::outlet::Offer;
use crate::part::WaitDecider;
use crate::questions::Person;
use crate::recovery::offer::{OfferEffect, OfferRefusal};
use aetheel_model::event::{Event, Lane};

/// A lane that waits for the end of a usage limit or at the cap of a budget.
#[derive(Clone, Debug)]
pub struct LaneWait {
    /// The lane.
    pub lane: Lane,
    /// The reason: one sentence that names the agent or the cap.
    pub reason: String,
    /// When the lane continues by itself.
    pub until: Timestamp,
    /// When the first waiting event was accepted.
    pub since: Timestamp,
    /// The decisions that people may make, as the buttons below the notice.
    pub offers: Vec<Offer>,
    /// The people who may make them.
    pub decider: WaitDecider,
}

/// Lists the lanes that wait, and carries out people's decisions about them. Cheap to clone.
#[derive(Clone)]
pub struct Waits {
    shared: Arc<Shared>,
}

impl Waits {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Checks all waits now. Must be called after a backend was loaded.
    pub fn check_again(&self) {
        self.shared.lanes.holds.on_reason_change();
    }

    /// Returns the lanes of this machine that wait.
    pub async fn all(&self) -> Vec<LaneWait> {
        let mut waits = Vec::new();
        for event in self.paused(|_| true) {
            waits.extend(self.wait_of(&event).await);
        }
        waits
    }

    /// Carries out a decision about the wait of a lane. `is_admitted` states whether the person may
    /// use the bot in the lane.
    ///
    /// # Errors
    /// [`OfferRefusal`]. [`OfferRefusal::Gone`] if the lane does not offer this decision now.
    pub async fn decide(
        &self,
        lane: &Lane,
        offer: &str,
        person: &Person,
        is_admitted: bool,
    ) -> Result<OfferEffect, OfferRefusal> {
        // An offer is only accepted in its own lane, because the permissions are those in that lane.
        let mut is_offered = false;
        for event in self.paused(|paused| paused == lane) {
            let wait = self.wait_of(&event).await;
            is_offered |=
                wait.is_some_and(|wait| wait.offers.iter().any(|known| known.id == offer));
        }
        if !is_offered {
            return Err(OfferRefusal::Gone);
        }
        if let Some(decided) = Budgets::new(self.shared.clone()).press(offer, person).await {
            return decided;
        }
        let choices = WaitChoices::new(self.shared.clone());
        choices.press(offer, is_admitted).await.unwrap_or(Err(OfferRefusal::Gone))
    }

    /// Returns the first event of each hold, ordered by lane.
    fn paused(&self, is_wanted: impl Fn(&Lane) -> bool) -> Vec<Event> {
        let queue = self.shared.lanes.queue.lock();
        let paused = queue.lanes().paused().filter(|event| is_wanted(&event.lane));
        let mut events: Vec<Event> = paused.cloned().collect();
        drop(queue);
        events.sort_by(|one, other| one.lane.cmp(&other.lane));
        events
    }

    async fn wait_of(&self, event: &Event) -> Option<LaneWait> {
        let wait = event_wait(&self.shared, event).await?;
        let (listed, until) = (wait.listed?, wait.until?);
        let since = Timestamp::from_millisecond(event.accepted_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        Some(LaneWait {
            lane: event.lane.clone(),
            reason: listed.reason,
            until,
            since,
            offers: wait.offers,
            decider: listed.decider,
        })
    }
}
