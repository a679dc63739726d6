//! The files that people and agents reserved, on the page of running turns.

use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, Render as _, html};

use super::access::{LaneLookup, SignedIn};
use super::components::{Button, Card, Form, list};
use super::fields::{FormRefusal, SubmittedForm};
use aetheel_dispatch::{ClaimAuthor, MachineClaim};
use aetheel_model::access::LanePermissions;
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;

/// The largest number of claims on a page. Further ones are only counted.
const SHOWN: usize = 20;
const NOT_THERE: FormRefusal = FormRefusal::of("That claim has ended.");

/// A claim in a lane that a user may see.
struct VisibleClaim {
    claim: MachineClaim,
    permissions: LanePermissions,
}

/// Renders the claims of the lanes that a user may see.
pub(super) async fn section(user: &SignedIn) -> Markup {
    let mut lanes = LaneLookup::new(user, usize::MAX);
    let mut visible = Vec::new();
    for claim in user.services().claims.everywhere() {
        let permissions = lanes.permissions_in(&claim.claim.lane).await;
        if let Some(permissions) = permissions.filter(|permissions| permissions.sees).cloned() {
            visible.push(VisibleClaim { claim, permissions });
        }
    }
    let now = Timestamp::now();
    html! {
        @if !visible.is_empty() {
            section aria-label="Reserved files" {
                h2 { "Reserved files" }
                (list(&visible, SHOWN, |claim| card(claim, user, now)))
            }
        }
    }
}

/// Returns whether a user may release the claims of a lane.
fn may_release(permissions: &LanePermissions) -> bool {
    permissions.acts || permissions.owner
}

fn card(visible: &VisibleClaim, user: &SignedIn, now: Timestamp) -> Markup {
    let VisibleClaim { claim: MachineClaim { machine, claim }, permissions } = visible;
    let paths = html! {
        bdi {
            @for (at, path) in claim.paths.iter().enumerate() {
                @if at > 0 { ", " }
                code { (short_line(path.as_str(), 100)) }
            }
        }
    };
    let release = Form::post(user, "/claims/release")
        .hidden("claim", &claim.id)
        .hidden("lane", &claim.lane)
        .with(Button::new("Release"));
    let facts = html! {
        p dir="auto" {
            "Reserved " (short_line(&claim.by(), 120)) " in " (short_line(&permissions.place, 100))
            " for " (claim.left(now))
            @if let Some(machine) = machine { " (on machine " (short_line(machine, 60)) ")" }
            "."
        }
        @if let Some(reason) = &claim.reason { p dir="auto" { (short_line(reason, 200)) } }
        @if may_release(permissions) { (release) }
    };
    Card::nested(paths).with(facts).render()
}

/// Releases a claim, for a user who may write in its channel.
pub(super) async fn release(form: SubmittedForm) -> Response {
    form.answer("/", release_claim(&form).await).await
}

async fn release_claim(form: &SubmittedForm) -> Result<String, FormRefusal> {
    let (user, id) = (&form.user, form.fields.one("claim"));
    let lane: Lane = form.fields.parse("lane").ok_or(NOT_THERE)?;
    let claims = &user.services().claims;
    // The form names the lane only to recognise a wrong one; the claim has its own.
    let mut all = claims.everywhere().into_iter().map(|known| known.claim);
    let claim = all.find(|claim| claim.id == id && claim.lane == lane).ok_or(NOT_THERE)?;
    let permissions = user.visible(&claim.lane).await.ok_or(NOT_THERE)?;
    if !may_release(&permissions) {
        return Err(FormRefusal::Forbidden);
    }
    let author = ClaimAuthor { lane, person: Some(user.id()), name: Some(user.name().to_owned()) };
    let released = claims.release(&author, &claim.id, permissions.owner).await;
    let text = released.map_err(FormRefusal::because)?;
    tracing::info!(user = user.id().to_field(), lane = %claim.lane, claim = claim.id, "a user released reserved files from the dashboard");
    user.announce(&claim.lane, "released reserved files.").await;
    Ok(text)
}
