//! Schedules, later turns of agents and hooks, for owners, and the form that runs a schedule now.

use axum::response::Response;
use maud::{Markup, Render as _, html};

use super::access::{Owner, SignedIn};
use super::components::{Button, Card, Facts, Form, list, warning};
use super::fields::{FormRefusal, SubmittedForm};
use super::later_turns;
use super::layout::{self, MenuPage};
use super::{ScheduleOverview, ScheduleView};
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;

/// The largest number of schedules on a page.
const SHOWN: usize = 40;
/// The largest number of warnings on a page.
const WARNINGS: usize = 10;
const NOT_THERE: FormRefusal = FormRefusal::of("There is no such schedule.");

/// Lists all schedules and hooks.
pub(super) async fn page(Owner(user): Owner) -> Response {
    let ScheduleOverview { schedules, hooks, warnings } = user.shared.api.schedules().await;
    let later = later_turns::overview(&user).await;
    let facts = hooks.iter().fold(Facts::default(), |facts, (name, instruction)| {
        facts.row(name, short_line(instruction, 200))
    });
    let main = html! {
        @for problem in warnings.iter().take(WARNINGS) { (warning(problem)) }
        @if schedules.is_empty() { p { "There are no schedules." } }
        (list(&schedules, SHOWN, |schedule| card(schedule, &user)))
        (later)
        h2 { "Hooks" }
        @if hooks.is_empty() { p { "There are no hooks." } }
        (facts)
    };
    layout::page(&user, MenuPage::Schedules, false, &main)
}

fn card(schedule: &ScheduleView, user: &SignedIn) -> Markup {
    let lane = &schedule.lane;
    let facts = Facts::default()
        .row("Schedule", short_line(&schedule.rhythm, 120))
        .row("Next", schedule.next.as_deref().unwrap_or("never"))
        .row("Prompt", short_line(&schedule.instruction, 200));
    let run = Form::post(user, "/schedules/run")
        .hidden("lane", lane)
        .with(Button::new("Run now").full_name(format!("Run now: {lane}")));
    Card::new(short_line(&lane.to_string(), 80)).with(facts).with(run).render()
}

/// Runs a schedule now, in addition to its regular times.
pub(super) async fn run(form: SubmittedForm) -> Response {
    form.answer("/schedules", run_now(&form).await).await
}

async fn run_now(form: &SubmittedForm) -> Result<&'static str, FormRefusal> {
    form.check_owner()?;
    let user = &form.user;
    let lane: Lane = form.fields.parse("lane").ok_or(NOT_THERE)?;
    let (event, channel) = user.shared.api.schedule_event(&lane).await.ok_or(NOT_THERE)?;
    if user.services().turns.is_busy(&lane) {
        return Ok("It is already running or waiting.");
    }
    let placed = user.services().intake.submit_or_route(event).await;
    let saved = placed.map_err(FormRefusal::because)?.wait_until_saved().await;
    let event = saved.map_err(FormRefusal::because)?;
    tracing::info!(
        user = user.id().to_field(),
        %lane,
        event,
        "an owner had a schedule run from the dashboard"
    );
    let did = format!("had {lane} run now.");
    user.announce_in(channel, &did).await;
    Ok("It is running, or waits in its lane.")
}
