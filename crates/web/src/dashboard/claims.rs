//! The files that people and agents reserved, on the page of running turns.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use maud::{Markup, html};

use super::DashboardState;
use super::layout::csrf;
use super::middleware::{SignedIn, SubmittedForm};
use aetheel_dispatch::{ClaimAuthor, MachineClaim};
use aetheel_model::claim::Claim;
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;

/// The largest number of claims on a page. Further ones are only counted.
const SHOWN: usize = 20;
const NOT_THERE: &str = "That claim has ended.";
const NOT_YOURS: &str = "You are not allowed to do that there.";

/// A claim that a user may see.
struct VisibleClaim {
    claim: Claim,
    /// The machine that has it, if it is another one.
    machine: Option<String>,
    /// The name of the channel.
    place: String,
    /// Whether the user may release it.
    releasable: bool,
}

/// Renders the claims of the lanes that a user may see.
pub(super) async fn section(shared: &DashboardState, guest: &SignedIn) -> Markup {
    let mut visible = Vec::new();
    let mut more = 0;
    for MachineClaim { machine, claim } in shared.services.claims.everywhere() {
        let standing = guest.permissions_in(shared, &claim.lane).await;
        if !standing.sees {
            continue;
        }
        if visible.len() == SHOWN {
            more += 1;
            continue;
        }
        let releasable = standing.acts || standing.owner;
        visible.push(VisibleClaim { claim, machine, place: standing.place, releasable });
    }
    let now = Timestamp::now();
    html! {
        @if !visible.is_empty() {
            section aria-label="Reserved files" {
                h2 { "Reserved files" }
                @for claim in &visible { (card(claim, guest, now)) }
                @if more > 0 { p { "And " (more) " more." } }
            }
        }
    }
}

fn card(visible: &VisibleClaim, guest: &SignedIn, now: Timestamp) -> Markup {
    let VisibleClaim { claim, machine, place, releasable } = visible;
    html! {
        article.card {
            h3 dir="auto" {
                @for (at, path) in claim.paths.iter().enumerate() {
                    @if at > 0 { ", " }
                    code { (short_line(path.as_str(), 100)) }
                }
            }
            p dir="auto" {
                "Reserved " (short_line(&claim.by(), 120)) " in " (short_line(place, 100))
                " for " (claim.left(now))
                @if let Some(machine) = machine { " (on machine " (short_line(machine, 60)) ")" }
                "."
            }
            @if let Some(reason) = &claim.reason { p dir="auto" { (short_line(reason, 200)) } }
            @if *releasable {
                form method="post" action="/claims/release" {
                    (csrf(guest))
                    input type="hidden" name="claim" value=(claim.id);
                    input type="hidden" name="lane" value=(claim.lane);
                    button type="submit" { "Release" }
                }
            }
        }
    }
}

/// Releases a claim, for a user who may write in its channel.
pub(super) async fn release(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let id = fields.one("claim");
    let lane: Option<Lane> = fields.one("lane").parse().ok();
    let claims = &shared.services.claims;
    // The form names the lane only to tell a wrong one apart; the claim has its own.
    let mut all = claims.everywhere().into_iter().map(|known| known.claim);
    let claim = all.find(|claim| claim.id == id && Some(&claim.lane) == lane.as_ref());
    let notice = match claim {
        None => NOT_THERE.to_owned(),
        Some(claim) => {
            let standing = guest.permissions_in(&shared, &claim.lane).await;
            let visitor = &guest.session.visitor;
            match (standing.sees, standing.acts || standing.owner) {
                (false, _) => NOT_THERE.to_owned(),
                (true, false) => NOT_YOURS.to_owned(),
                (true, true) => {
                    let author = ClaimAuthor {
                        lane: claim.lane.clone(),
                        person: Some(visitor.user),
                        name: Some(visitor.name.clone()),
                    };
                    match claims.release(&author, &claim.id, standing.owner).await {
                        Ok(text) => {
                            tracing::info!(user = visitor.user.to_field(), lane = %claim.lane, claim = claim.id, "a user released reserved files from the dashboard");
                            if let Lane::Channel(channel) = claim.lane {
                                // The claim is released even if this message fails.
                                let did = "released reserved files.";
                                let _ =
                                    shared.api.post_action(Some(channel), &visitor.name, did).await;
                            }
                            text
                        }
                        Err(error) => error.to_string(),
                    }
                }
            }
        }
    };
    guest.session.set_notice(notice);
    Redirect::to("/").into_response()
}
