//! The turns that agents asked for at later times: for owners on the page of schedules, for others
//! on the page of their channel.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::DashboardState;
use super::layout::csrf;
use super::middleware::{SignedIn, SubmittedForm};
use super::times::day;
use aetheel_model::access::LanePermissions;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::{AgentCause, Lane};
use aetheel_model::plain::short_line;
use aetheel_store::workspace::AgentSchedule;

/// The largest number of turns on a page. Further ones are only counted.
const SHOWN: usize = 20;
/// The largest number of lanes that are looked up in Discord for a page.
const ASKED: usize = 60;
const NOT_THERE: &str = "There is no such turn any more.";
const NOT_YOURS: &str = "You are not allowed to do that there.";

/// A turn in a lane that a user may see.
struct ShownLaterTurn {
    turn: AgentSchedule,
    standing: LanePermissions,
}

/// Renders the turns of all lanes that an owner may see.
pub(super) async fn overview(shared: &DashboardState, guest: &SignedIn) -> Markup {
    let mut standings: HashMap<Lane, LanePermissions> = HashMap::new();
    let (mut visible, mut hidden) = (Vec::new(), 0);
    for turn in shared.services.later_turns.all() {
        if !standings.contains_key(&turn.lane) && standings.len() < ASKED {
            let standing = guest.permissions_in(shared, &turn.lane).await;
            standings.insert(turn.lane.clone(), standing);
        }
        match standings.get(&turn.lane).filter(|standing| standing.sees) {
            Some(standing) if visible.len() < SHOWN => {
                visible.push(ShownLaterTurn { standing: standing.clone(), turn });
            }
            _ => hidden += 1,
        }
    }
    html! {
        h2 { "Later turns of agents" }
        @if visible.is_empty() { p { "No agent asked for a later turn in the channels that you can see." } }
        @for visible in &visible { (card(visible, guest, "schedules")) }
        @if hidden > 0 { p { "And " (hidden) " more, or in channels that you cannot see." } }
    }
}

/// Renders the turns of one lane, which the user may see.
pub(super) fn of_lane(
    shared: &DashboardState,
    guest: &SignedIn,
    lane: &Lane,
    standing: &LanePermissions,
) -> Markup {
    let turns = shared.services.later_turns.in_lane(lane);
    let more = turns.len().saturating_sub(SHOWN);
    html! {
        @if !turns.is_empty() {
            h2 { "Later turns of agents" }
            @for turn in turns.into_iter().take(SHOWN) {
                (card(&ShownLaterTurn { turn, standing: standing.clone() }, guest, "channel"))
            }
            @if more > 0 { p { "And " (more) " more." } }
        }
    }
}

/// Renders a turn. `from` is the page to return to.
fn card(
    ShownLaterTurn { turn, standing }: &ShownLaterTurn,
    guest: &SignedIn,
    from: &str,
) -> Markup {
    let reason = match (&turn.cron, turn.cause) {
        (Some(_), _) => "schedule",
        (None, AgentCause::Sleep) => "continues its work",
        (None, _) => "reminder",
    };
    html! {
        article.card {
            h3 { bdi { (short_line(&standing.place, 80)) } ": " (reason) }
            dl {
                @if let Some(cron) = &turn.cron {
                    dt { "Schedule" } dd { code { (short_line(&cron.expression, 100)) } " " (short_line(&cron.zone, 60)) ", until " (day(turn.until)) }
                }
                @if let Some(next) = turn.next { dt { "Next" } dd { (day(next)) } }
                @if let Some(name) = &turn.name { dt { "Asked by" } dd dir="auto" { (short_line(name, 80)) } }
                @if let Some(name) = &turn.allowed_by { dt { "Allowed by" } dd dir="auto" { (short_line(name, 80)) } }
                dt { "Prompt" } dd dir="auto" { (short_line(&turn.text, 200)) }
            }
            @if standing.acts || standing.owner {
                form method="post" action="/schedules/remove" {
                    (csrf(guest))
                    input type="hidden" name="lane" value=(turn.lane);
                    input type="hidden" name="id" value=(turn.id);
                    input type="hidden" name="from" value=(from);
                    button.stop type="submit" aria-label={ "Remove: " (turn.id) } { "Remove" }
                }
            }
        }
    }
}

/// Removes a turn, for a user who may write in its channel and for owners.
pub(super) async fn remove(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let lane: Option<Lane> = fields.one("lane").parse().ok();
    let path = match &lane {
        _ if fields.one("from") == "schedules" && guest.standing.owner => "/schedules".to_owned(),
        Some(Lane::Channel(channel)) => format!("/channels/{channel}"),
        _ => "/channels".to_owned(),
    };
    let notice = match lane {
        Some(lane) => removed(&shared, &guest, &lane, fields.one("id")).await,
        None => NOT_THERE,
    };
    guest.session.set_notice(notice);
    Redirect::to(&path).into_response()
}

/// Returns the message about the removal of a turn.
async fn removed(shared: &DashboardState, guest: &SignedIn, lane: &Lane, id: &str) -> &'static str {
    let standing = guest.permissions_in(shared, lane).await;
    if !standing.sees {
        return NOT_THERE;
    }
    let visitor = &guest.session.visitor;
    if !(standing.acts || standing.owner) {
        tracing::warn!(user = visitor.user.to_field(), %lane, "refused to remove a later turn: the user may not act there");
        return NOT_YOURS;
    }
    if !shared.services.later_turns.remove(lane, id).await {
        return NOT_THERE;
    }
    tracing::info!(user = visitor.user.to_field(), %lane, id, "a user removed a later turn of an agent from the dashboard");
    AuditEntry::new(AuditKind::DashboardAction)
        .by(Some(visitor.user), Some(&visitor.name))
        .in_lane(lane)
        .with("action", "remove-later-turn")
        .with("id", id)
        .note();
    if let Lane::Channel(channel) = lane {
        // The turn is removed even if this message fails.
        let did = "removed a later turn of the agent.";
        let _ = shared.api.post_action(Some(*channel), &visitor.name, did).await;
    }
    "Removed: the agent does not get this turn."
}
