//! The turns that agents asked for at later times: for owners on the page of schedules, for others
//! on the page of their channel.

use axum::response::Response;
use maud::{Markup, Render as _, html};

use super::access::{LaneLookup, SignedIn};
use super::components::{Button, Card, Facts, Form, list};
use super::fields::{FormRefusal, SubmittedForm};
use super::times::day;
use aetheel_model::access::LanePermissions;
use aetheel_model::audit::AuditKind;
use aetheel_model::event::{AgentCause, Lane};
use aetheel_model::plain::short_line;
use aetheel_store::workspace::AgentSchedule;

/// The largest number of turns on a page. Further ones are only counted.
const SHOWN: usize = 20;
/// The largest number of lanes that are looked up in Discord for a page.
const ASKED: usize = 60;
const NOT_THERE: FormRefusal = FormRefusal::of("There is no such turn any more.");

/// Renders the turns of all lanes that an owner may see.
pub(super) async fn overview(user: &SignedIn) -> Markup {
    let mut lanes = LaneLookup::new(user, ASKED);
    let (mut cards, mut hidden) = (Vec::new(), 0);
    for turn in user.services().later_turns.all() {
        let permissions = lanes.permissions_in(&turn.lane).await;
        match permissions.filter(|permissions| permissions.sees && cards.len() < SHOWN) {
            Some(permissions) => cards.push(card(&turn, permissions, user, "schedules")),
            None => hidden += 1,
        }
    }
    html! {
        h2 { "Later turns of agents" }
        @if cards.is_empty() { p { "No agent asked for a later turn in the channels that you can see." } }
        @for card in &cards { (card) }
        @if hidden > 0 { p { "And " (hidden) " more, or in channels that you cannot see." } }
    }
}

/// Renders the turns of one lane, which the user may see.
pub(super) fn of_lane(lane: &Lane, permissions: &LanePermissions, user: &SignedIn) -> Markup {
    let turns = user.services().later_turns.in_lane(lane);
    html! {
        @if !turns.is_empty() {
            h2 { "Later turns of agents" }
            (list(&turns, SHOWN, |turn| card(turn, permissions, user, "channel")))
        }
    }
}

/// Returns whether a user may remove the turns of a lane.
fn may_remove(permissions: &LanePermissions) -> bool {
    permissions.acts || permissions.owner
}

/// Renders a turn. `from` is the page to return to.
fn card(
    turn: &AgentSchedule,
    permissions: &LanePermissions,
    user: &SignedIn,
    from: &str,
) -> Markup {
    let reason = match (&turn.cron, turn.cause) {
        (Some(_), _) => "schedule",
        (None, AgentCause::Sleep) => "continues its work",
        (None, _) => "reminder",
    };
    let schedule = turn.cron.as_ref().map(|cron| {
        let (expression, zone) = (short_line(&cron.expression, 100), short_line(&cron.zone, 60));
        html! { code { (expression) } " " (zone) ", until " (day(turn.until)) }
    });
    let person = |name: &Option<String>| name.as_ref().map(|name| short_line(name, 80));
    let facts = Facts::default()
        .maybe("Schedule", schedule)
        .maybe("Next", turn.next.map(day))
        .text("Asked by", person(&turn.name))
        .text("Allowed by", person(&turn.allowed_by))
        .text("Prompt", Some(short_line(&turn.text, 200)));
    let remove = Form::post(user, "/schedules/remove")
        .hidden("lane", &turn.lane)
        .hidden("id", &turn.id)
        .hidden("from", from)
        .with(Button::stop("Remove").full_name(format!("Remove: {}", turn.id)));
    Card::nested(html! { bdi { (short_line(&permissions.place, 80)) } ": " (reason) })
        .with(facts)
        .with(html! { @if may_remove(permissions) { (remove) } })
        .render()
}

/// Removes a turn, for a user who may write in its channel and for owners.
pub(super) async fn remove(form: SubmittedForm) -> Response {
    let path = match form.fields.parse("lane") {
        _ if form.fields.one("from") == "schedules" && form.user.is_owner() => {
            "/schedules".to_owned()
        }
        Some(Lane::Channel(channel)) => format!("/channels/{channel}"),
        _ => "/channels".to_owned(),
    };
    form.answer(&path, remove_turn(&form).await).await
}

async fn remove_turn(form: &SubmittedForm) -> Result<&'static str, FormRefusal> {
    let (user, id) = (&form.user, form.fields.one("id"));
    let lane: Lane = form.fields.parse("lane").ok_or(NOT_THERE)?;
    let permissions = user.visible(&lane).await.ok_or(NOT_THERE)?;
    if !may_remove(&permissions) {
        return Err(FormRefusal::Forbidden);
    }
    if !user.services().later_turns.remove(&lane, id).await {
        return Err(NOT_THERE);
    }
    tracing::info!(user = user.id().to_field(), %lane, id, "a user removed a later turn of an agent from the dashboard");
    let entry = user.audit(AuditKind::DashboardAction).in_lane(&lane);
    entry.with("action", "remove-later-turn").with("id", id).note();
    user.announce(&lane, "removed a later turn of the agent.").await;
    Ok("Removed: the agent does not get this turn.")
}
