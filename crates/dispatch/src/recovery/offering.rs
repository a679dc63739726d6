//! Asks people whether an event runs again.

use super::restart::{Recovery, notice_target};
use crate::outlet::{Notice, Offer};
use crate::recovery::offer::{OfferReason, offer_id};
use aetheel_model::event::{Event, Lane};
use aetheel_store::workspace::{Journal, JournalEntry, JournalMark};

const RETRY_LABEL: &str = "Try again";

impl Recovery {
    pub(crate) async fn offer_event(&self, event: &Event, why: OfferReason) {
        if let Some((journal, entry)) = self.shared.durability.journal_entry(event) {
            self.offer(journal, &entry, why).await;
        }
    }

    /// Asks people whether to run an event again. The question appears below the part of the answer
    /// that was posted.
    pub(crate) async fn offer(&self, journal: &Journal, entry: &JournalEntry, why: OfferReason) {
        let (event, aside) = (&entry.event, why == OfferReason::SetAside);
        let (channel, about) = notice_target(event);
        let what = if about.is_some() { "this".to_owned() } else { self.excerpt(event) };
        let text = match why {
            OfferReason::SetAside => {
                tracing::error!(event = event.sequence, lane = %event.lane, deaths = entry.started, "an event was running during each of the gateway's last crashes; it is set aside");
                format!(
                    "I crashed {} times while I worked on {what}, so I have set it aside. (set aside)",
                    entry.started
                )
            }
            OfferReason::Interrupted => {
                tracing::warn!(event = event.sequence, lane = %event.lane, "an event was interrupted after its agent had used a tool; people are asked");
                format!(
                    "I was interrupted while I worked on {what} and had already used a tool, so I did not simply start again. (interrupted)"
                )
            }
            OfferReason::PossibleToolUse => {
                tracing::warn!(event = event.sequence, lane = %event.lane, "an event was interrupted and its agent may have used a tool; people are asked");
                format!(
                    "I was interrupted while I worked on {what} and may have used a tool, so I did not simply start again. (interrupted)"
                )
            }
            OfferReason::Panicked => format!(
                "Something inside me broke while I worked on {what}. The log has the details. (internal)"
            ),
        };
        let offer =
            Offer { id: offer_id(event.sequence, entry.retries), label: RETRY_LABEL.to_owned() };
        let notice = Notice { channel, about, text, offers: vec![offer.clone()] };
        // The posted messages must not look like an answer.
        let prior = self.shared.durability.progress_of(event).prior_delivery(event);
        let posted = self.shared.deps.outlet.give_up_reply(event, notice, prior).await;
        if aside && channel.is_some() {
            let text = format!(
                "An event in {} was running when I crashed, {} times; I have set it aside. (set aside)",
                event.lane, entry.started
            );
            // If there is no channel for notices, the log line above remains.
            let _ = self.shared.deps.outlet.notify(Notice::for_operator(text, Some(offer))).await;
        }
        let at_ms = self.shared.deps.clock.now_ms();
        match posted {
            Ok(()) => drop(journal.mark(event.sequence, JournalMark::Offered { at_ms, aside })),
            Err(error) => {
                tracing::error!(event = event.sequence, lane = %event.lane, %error, "nobody could be asked about an event; trying again with the next start");
            }
        }
    }

    /// Returns the beginning of a prompt on one line, for a notice that cannot refer to the
    /// message.
    fn excerpt(&self, event: &Event) -> String {
        let line: String = event
            .prompt
            .chars()
            .map(|c| if c.is_control() || c == '`' { ' ' } else { c })
            .take(80)
            .collect();
        let line = self.shared.deps.redactor.redact(line.trim().to_owned());
        match &event.lane {
            Lane::Channel(_) | Lane::Console => format!("`{line}`"),
            lane => format!("{lane}: `{line}`"),
        }
    }
}
