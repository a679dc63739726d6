//! Schedules, later turns of agents and hooks, for owners, and the form that runs a schedule now.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use super::layout::{self, MenuPage, csrf};
use super::middleware::{SignedIn, SubmittedForm};
use super::{DashboardState, frame, later_turns};
use aetheel_model::plain::short_line;

/// The largest number of schedules on a page.
const SHOWN: usize = 40;
/// The largest number of warnings on a page.
const WARNINGS: usize = 10;

/// Lists all schedules and hooks.
pub(super) async fn page(State(shared): State<Arc<DashboardState>>, guest: SignedIn) -> Response {
    if !guest.standing.owner {
        return frame::not_found().await;
    }
    let seen = shared.api.schedules().await;
    let later = later_turns::overview(&shared, &guest).await;
    let main = html! {
        @for warning in seen.warnings.iter().take(WARNINGS) { p { "⚠️ " (short_line(warning, 300)) } }
        @if seen.schedules.is_empty() { p { "There are no schedules." } }
        @for schedule in seen.schedules.iter().take(SHOWN) {
            article.card {
                h2 { (short_line(&schedule.lane.to_string(), 80)) }
                dl {
                    dt { "Schedule" } dd { (short_line(&schedule.rhythm, 120)) }
                    dt { "Next" } dd { (schedule.next.as_deref().unwrap_or("never")) }
                    dt { "Prompt" } dd { (short_line(&schedule.instruction, 200)) }
                }
                form method="post" action="/schedules/run" {
                    (csrf(&guest))
                    input type="hidden" name="lane" value=(schedule.lane);
                    button type="submit" aria-label={ "Run now: " (schedule.lane) } { "Run now" }
                }
            }
        }
        @if seen.schedules.len() > SHOWN { p { "And " (seen.schedules.len() - SHOWN) " more." } }
        (later)
        h2 { "Hooks" }
        @if seen.hooks.is_empty() { p { "There are no hooks." } }
        dl {
            @for (name, instruction) in &seen.hooks { dt { (name) } dd { (short_line(instruction, 200)) } }
        }
    };
    layout::page(&guest, MenuPage::Schedules, false, &main)
}

/// Runs a schedule now, in addition to its regular times.
pub(super) async fn run(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    if !guest.standing.owner {
        return frame::not_found().await;
    }
    let visitor = &guest.session.visitor;
    let lane = fields.one("lane");
    let event = match lane.parse() {
        Ok(lane) => shared.api.schedule_event(&lane).await,
        Err(_) => None,
    };
    let notice = match event {
        None => "There is no such schedule.".to_owned(),
        Some((_, _)) if lane.parse().is_ok_and(|lane| shared.services.turns.is_busy(&lane)) => {
            "It is already running or waiting.".to_owned()
        }
        Some((event, channel)) => match shared.services.intake.submit_or_route(event).await {
            Err(refusal) => refusal.to_string(),
            Ok(placed) => match placed.wait_until_saved().await {
                Err(refusal) => refusal.to_string(),
                Ok(event) => {
                    tracing::info!(
                        user = visitor.user.to_field(),
                        lane,
                        event,
                        "an owner had a schedule run from the dashboard"
                    );
                    let did = format!("had {lane} run now.");
                    let _ = shared.api.post_action(channel, &visitor.name, &did).await;
                    "It is running, or waits in its lane.".to_owned()
                }
            },
        },
    };
    guest.session.set_notice(notice);
    Redirect::to("/schedules").into_response()
}
