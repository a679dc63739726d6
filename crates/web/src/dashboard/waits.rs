//! Lanes that wait for the end of a usage limit or at the cap of a budget: the reason and the
//! decisions, in the card of the lane.

use axum::response::Response;
use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::access::SignedIn;
use super::components::{Button, Form};
use super::fields::{FormRefusal, SubmittedForm};
use super::times::day;
use aetheel_dispatch::{LaneWait, WaitDecider};
use aetheel_model::access::LanePermissions;
use aetheel_model::audit::AuditKind;
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;
use aetheel_model::shown_time::readable;

const NOT_THERE: FormRefusal =
    FormRefusal::of("This conversation no longer waits, or it waits for something else.");

/// Returns whether a user may make the decisions about a wait.
fn may_decide(wait: &LaneWait, permissions: &LanePermissions) -> bool {
    match wait.decider {
        WaitDecider::Everybody => permissions.acts,
        WaitDecider::Owners => permissions.owner,
    }
}

/// Renders the wait of a lane, with a button for each decision that the user may make.
pub(super) fn section(wait: &LaneWait, permissions: &LanePermissions, user: &SignedIn) -> Markup {
    let offers = wait.offers.iter().map(|offer| {
        let label = html! { bdi { (short_line(&offer.label, 80)) } };
        Button::new(label).sends("offer", &offer.id)
    });
    let form = Form::post(user, "/waits/decide").hidden("lane", &wait.lane).with_all(offers);
    html! {
        section.question aria-label="This conversation waits" {
            p dir="auto" { "⏳ " (short_line(&readable(&wait.reason, &TimeZone::UTC), 300)) }
            p { "Prompts have waited since " (day(wait.since)) " and are answered at " (day(wait.until)) "." }
            @if may_decide(wait, permissions) {
                (form)
            } @else if wait.decider == WaitDecider::Owners {
                p { "An owner can raise the budget." }
            }
        }
    }
}

/// Carries out a decision about a lane that waits, for a user who may make it.
pub(super) async fn decide(form: SubmittedForm) -> Response {
    form.answer("/", carry_out(&form).await).await
}

async fn carry_out(form: &SubmittedForm) -> Result<String, FormRefusal> {
    let (user, offer) = (&form.user, form.fields.one("offer"));
    let lane: Lane = form.fields.parse("lane").ok_or(NOT_THERE)?;
    let permissions = user.visible(&lane).await.ok_or(NOT_THERE)?;
    let waits = user.services().waits.all().await;
    let wait = waits.into_iter().find(|wait| wait.lane == lane).ok_or(NOT_THERE)?;
    let offered = wait.offers.iter().find(|known| known.id == offer).ok_or(NOT_THERE)?;
    let label = short_line(&offered.label, 80);
    if !may_decide(&wait, &permissions) {
        return Err(FormRefusal::Forbidden);
    }
    let person = user.person(&permissions);
    let decision = user.services().waits.decide(&lane, offer, &person, permissions.acts).await;
    let result =
        decision.as_ref().map_or_else(|why| format!("refused: {why}"), |_| "accepted".to_owned());
    let entry = user.audit(AuditKind::DashboardAction).in_lane(&lane).with("action", "wait");
    entry.with("offer", offer).with("result", result).note();
    decision.map_err(FormRefusal::because)?;
    tracing::info!(user = user.id().to_field(), %lane, offer, "a user decided about a lane that waits from the dashboard");
    user.announce(&lane, &format!("chose \"{label}\" for the prompts that wait.")).await;
    Ok(format!("Done: {label}."))
}
