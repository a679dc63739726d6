//! Lanes that wait for the end of a usage limit or at the cap of a budget: the reason and the
//! decisions, in the card of the lane.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::DashboardState;
use super::layout::csrf;
use super::middleware::{SignedIn, SubmittedForm};
use super::times::day;
use aetheel_dispatch::{LaneWait, WaitDecider};
use aetheel_model::access::LanePermissions;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;
use aetheel_model::shown_time::readable;

const NOT_THERE: &str = "This conversation no longer waits, or it waits for something else.";
const NOT_YOURS: &str = "You are not allowed to do that there.";

/// Returns whether a user may make the decisions about a wait.
fn may_decide(wait: &LaneWait, standing: &LanePermissions) -> bool {
    match wait.decider {
        WaitDecider::Everybody => standing.acts,
        WaitDecider::Owners => standing.owner,
    }
}

/// Renders the wait of a lane, with a button for each decision that the user may make.
pub(super) fn section(wait: &LaneWait, standing: &LanePermissions, guest: &SignedIn) -> Markup {
    html! {
        section.question aria-label="This conversation waits" {
            p dir="auto" { "⏳ " (short_line(&readable(&wait.reason, &TimeZone::UTC), 300)) }
            p { "Prompts have waited since " (day(wait.since)) " and are answered at " (day(wait.until)) "." }
            @if may_decide(wait, standing) {
                form method="post" action="/waits/decide" {
                    (csrf(guest))
                    input type="hidden" name="lane" value=(wait.lane);
                    @for offer in &wait.offers {
                        button type="submit" name="offer" value=(offer.id) { bdi { (short_line(&offer.label, 80)) } }
                    }
                }
            } @else if wait.decider == WaitDecider::Owners {
                p { "An owner can raise the budget." }
            }
        }
    }
}

/// Carries out a decision about a lane that waits, for a user who may make it.
pub(super) async fn decide(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let offer = fields.one("offer");
    let notice = match fields.one("lane").parse() {
        Ok(lane) => decided(&shared, &guest, &lane, offer).await,
        Err(_) => NOT_THERE.to_owned(),
    };
    guest.session.set_notice(notice);
    Redirect::to("/").into_response()
}

/// Returns the message about a decision.
async fn decided(shared: &DashboardState, guest: &SignedIn, lane: &Lane, offer: &str) -> String {
    let standing = guest.permissions_in(shared, lane).await;
    if !standing.sees {
        return NOT_THERE.to_owned();
    }
    let waits = shared.services.waits.all().await;
    let wait = waits.into_iter().find(|wait| wait.lane == *lane);
    let Some((wait, label)) = wait.and_then(|wait| {
        let offer = wait.offers.iter().find(|known| known.id == offer)?;
        let label = short_line(&offer.label, 80);
        Some((wait, label))
    }) else {
        return NOT_THERE.to_owned();
    };
    let (visitor, person) = (&guest.session.visitor, guest.person(&standing));
    if !may_decide(&wait, &standing) {
        tracing::warn!(user = visitor.user.to_field(), %lane, "refused a decision about a lane that waits: the user may not act there");
        return NOT_YOURS.to_owned();
    }
    let decision = shared.services.waits.decide(lane, offer, &person, standing.acts).await;
    let result =
        decision.as_ref().map_or_else(|why| format!("refused: {why}"), |_| "accepted".to_owned());
    AuditEntry::new(AuditKind::DashboardAction)
        .by(Some(visitor.user), Some(&visitor.name))
        .in_lane(lane)
        .with("action", "wait")
        .with("offer", offer)
        .with("result", result)
        .note();
    match decision {
        Err(refusal) => refusal.to_string(),
        Ok(_) => {
            tracing::info!(user = visitor.user.to_field(), %lane, offer, "a user decided about a lane that waits from the dashboard");
            if let Lane::Channel(channel) = lane {
                // The decision is carried out even if this message fails.
                let did = format!("chose \"{label}\" for the prompts that wait.");
                let _ = shared.api.post_action(Some(*channel), &visitor.name, &did).await;
            }
            format!("Done: {label}.")
        }
    }
}
