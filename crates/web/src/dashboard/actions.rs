//! The forms of running turns: stop, steer, answer. Each posts a message in Discord that names the
//! user and the action, and returns to the page with a message about the result.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};

use super::DashboardState;
use super::middleware::{FormFields, SignedIn, SubmittedForm};
use aetheel_dispatch::{OpenQuestion, Subject};
use aetheel_model::access::LanePermissions;
use aetheel_model::agent::AskDecision;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent, Sequence};
use aetheel_model::plain::short_line;

const NOT_THERE: &str = "That turn is no longer running.";
const NOT_YOURS: &str = "You are not allowed to do that there.";

/// Redirects to the page, which shows a message.
fn back(guest: &SignedIn, notice: impl Into<String>) -> Response {
    guest.session.set_notice(notice);
    Redirect::to("/").into_response()
}

/// Returns the turn that a form names, with the user's permissions, if the user may see its lane.
async fn turn_of(
    shared: &DashboardState,
    guest: &SignedIn,
    fields: &FormFields,
) -> Option<(Lane, Sequence, LanePermissions)> {
    let lane: Lane = fields.one("lane").parse().ok()?;
    let turn = fields.one("turn").parse().ok()?;
    let standing = guest.permissions_in(shared, &lane).await;
    standing.sees.then_some((lane, turn, standing))
}

/// Stops a turn if it is still running.
pub(super) async fn stop(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    // A turn that the user may not see is treated as missing.
    let Some((lane, turn, standing)) = turn_of(&shared, &guest, &fields).await else {
        return back(&guest, NOT_THERE);
    };
    if !standing.acts {
        return back(&guest, NOT_YOURS);
    }
    if !shared.services.turns.stop_turn(&lane, turn).await {
        return back(&guest, NOT_THERE);
    }
    let visitor = &guest.session.visitor;
    tracing::info!(user = visitor.user.to_field(), %lane, event = turn, "a user stopped a turn from the dashboard");
    AuditEntry::new(AuditKind::DashboardAction)
        .by(Some(visitor.user), Some(&visitor.name))
        .in_lane(&lane)
        .with("event", turn)
        .with("action", "stop")
        .note();
    if let Lane::Channel(channel) = lane {
        // The turn is stopped even if this message fails.
        let _ = shared.api.post_action(Some(channel), &visitor.name, "stopped this turn.").await;
    }
    back(&guest, "Stopped.")
}

/// Sends a message to the agent of a turn.
pub(super) async fn steer(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let words = fields.one("words").trim().to_owned();
    if words.is_empty() {
        return back(&guest, "Write what the agent should know.");
    }
    let Some((Lane::Channel(channel), turn, standing)) = turn_of(&shared, &guest, &fields).await
    else {
        return back(&guest, NOT_THERE);
    };
    if !standing.acts {
        return back(&guest, NOT_YOURS);
    }
    let lane = Lane::Channel(channel);
    let runs = |view: &aetheel_dispatch::LaneView| {
        view.lane == lane && view.running.as_ref().is_some_and(|running| running.event == turn)
    };
    if !shared.services.observer.lanes().iter().any(runs) {
        return back(&guest, NOT_THERE);
    }
    let visitor = &guest.session.visitor;
    // The prompt is posted before the event is submitted, so that the answer appears below it.
    let message = match shared.api.post_prompt(channel, &visitor.name, &words).await {
        Ok(message) => message,
        Err(_) => {
            return back(&guest, "Discord did not accept it, so it was not sent to the agent.");
        }
    };
    let event = NewEvent {
        author: Some(visitor.name.clone()),
        asker: Some(visitor.user),
        parent: standing.parent,
        key: Some(format!("dashboard:{message}")),
        ..NewEvent::new(
            EventKind::Message,
            lane.clone(),
            EventOrigin::Message { channel, message },
            words,
        )
    };
    tracing::info!(user = visitor.user.to_field(), %lane, event = turn, "a user steered a turn from the dashboard");
    AuditEntry::new(AuditKind::DashboardAction)
        .by(Some(visitor.user), Some(&visitor.name))
        .in_lane(&lane)
        .with("event", turn)
        .with("action", "steer")
        .note();
    match shared.services.intake.steer(event).await {
        // The result is shown in the turn or in Discord.
        Ok(_) => back(&guest, "Sent to the agent."),
        Err(refusal) => back(&guest, refusal.to_string()),
    }
}

/// Answers a question of an agent.
pub(super) async fn answer(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let Some((lane, _, standing)) = turn_of(&shared, &guest, &fields).await else {
        return back(&guest, NOT_THERE);
    };
    let asked = shared
        .services
        .observer
        .lanes()
        .into_iter()
        .filter(|view| view.lane == lane)
        .filter_map(|view| view.running)
        .flat_map(|turn| turn.questions)
        .find(|question| question.id == fields.one("question"));
    let Some(asked) = asked else { return back(&guest, "This question is no longer open.") };
    let Some(decision) = decision(&asked, &fields) else {
        return back(&guest, "Choose one of the answers.");
    };
    if let Err(refusal) =
        shared.services.questions.answer(&asked.id, &guest.person(&standing), decision)
    {
        return back(&guest, refusal.to_string());
    }
    // The action is posted even though the question shows its result, because a question that is
    // answered immediately never appears in Discord.
    if let Lane::Channel(channel) = lane {
        let chosen = asked.choices().into_iter().find(|(word, ..)| *word == fields.one("word"));
        let how = chosen.map_or_else(String::new, |(word, ..)| format!(": {word}"));
        let did = format!("answered \"{}\"{how}.", short_line(&asked.title, 150));
        let _ = shared.api.post_action(Some(channel), &guest.session.visitor.name, &did).await;
    }
    back(&guest, "Answered.")
}

fn decision(asked: &OpenQuestion, fields: &FormFields) -> Option<AskDecision> {
    let word = fields.one("word");
    let Subject::Questions(questions) = &asked.subject else {
        let mut choices = asked.choices().into_iter();
        return choices.find(|(choice, ..)| *choice == word).map(|(_, _, decision)| decision);
    };
    if word == "decline" {
        return Some(AskDecision::Declined);
    }
    let answers = questions.iter().enumerate().map(|(at, question)| {
        let mut given: Vec<String> =
            fields.all(&format!("answer{at}")).map(str::to_owned).collect();
        // If the form has an option and a text, only the text counts.
        if !question.many && given.len() > 1 {
            given.drain(..given.len() - 1);
        }
        (question.id.clone(), given)
    });
    Some(AskDecision::Answers(answers.filter(|(_, values)| !values.is_empty()).collect()))
}
