//! Claims that two machines took before they learned of each other's.

use std::sync::Arc;

use jiff::Timestamp;

use super::{messages, news};
use crate::Shared;
use crate::outlet::Notice;
use aetheel_model::claim::Claim;
use aetheel_model::event::Lane;
use aetheel_model::plain::with_causes;

/// Releases the claims of this machine that another machine took at the same time and keeps, and
/// notifies their lanes.
pub(super) async fn settle(shared: &Arc<Shared>) {
    let (others, now) = (shared.neighbours.shared(), shared.now());
    let notes = &shared.deps.workspace.state.claims;
    if others.is_empty() || notes.valid(now).yield_to(&others).is_empty() {
        return;
    }
    let released = match notes.change_valid(now, move |claims| Ok(claims.yield_to(&others))).await {
        Ok(released) => released,
        Err(error) => {
            tracing::error!(error = %with_causes(&error), "cannot save state/claims.md; two machines have a claim to the same files");
            return;
        }
    };
    news::send_claims(shared, false);
    for (own, other) in released {
        tracing::warn!(claim = own.id, lane = %own.lane, other = other.id, "a claim was released: another machine had taken one to the same files at the same time");
        // Other notices of the machine must not wait for this one.
        tokio::spawn(notify(Arc::clone(shared), own, other, now));
    }
}

async fn notify(shared: Arc<Shared>, own: Claim, other: Claim, now: Timestamp) {
    let channel = match own.lane {
        Lane::Channel(channel) => Some(channel),
        Lane::Console => None,
        _ => return,
    };
    let text = shared.deps.redactor.redact(messages::yielded(&own, &other, now));
    let notice = Notice { channel, about: None, text, offers: Vec::new() };
    if let Err(error) = shared.deps.outlet.notify(notice).await {
        tracing::warn!(lane = %own.lane, %error, "cannot post the notice about a released claim");
    }
}
