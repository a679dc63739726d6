//! Switching pushes on and off for a device, and what its worker asks for when it is woken.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::json;

use super::super::Shared;
use super::super::frame;
use super::super::guard::{Guest, Sent};
use super::super::layout::csrf;
use super::services::Refusal;
use super::{Push, devices};
use crate::plain::{short_line, with_causes};
use crate::workspace::Subscription;

const WORKER: &str = include_str!("../assets/worker.js");
/// Questions that a worker is told of; the others are counted.
const TOLD: usize = 5;

/// The script that a push wakes.
pub(in super::super) async fn worker() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], WORKER).into_response()
}

/// What a page says of it: the script makes the buttons fit this device.
pub(in super::super) fn section(push: &Push, guest: &Guest) -> Markup {
    let user = guest.session.visitor.user;
    let known = push.notes.known();
    let marks: Vec<String> = known
        .iter()
        .filter(|device| device.user == user)
        .map(|device| devices::mark(&device.endpoint))
        .collect();
    html! {
        section id="push" data-key=(push.key.public()) data-devices=(marks.join(" ")) aria-label="Notifications" {
            p id="push-says" role="status" {
                "Where scripts run, this page can tell you on your device when an agent asks."
            }
            form id="push-on" method="post" action="/push/on" hidden {
                (csrf(guest))
                input type="hidden" name="endpoint" value="";
                button type="submit" { "Tell me on this device when an agent asks" }
            }
            @if !marks.is_empty() {
                form id="push-off" method="post" action="/push/off" {
                    (csrf(guest))
                    input type="hidden" name="endpoint" value="";
                    button type="submit" { "Tell me on none of my devices any more (" (marks.len()) ")" }
                }
            }
        }
    }
}

fn back(guest: &Guest, said: impl Into<String>) -> Response {
    guest.session.say(said);
    Redirect::to("/").into_response()
}

/// Switches a device on.
pub(in super::super) async fn on(State(shared): State<Arc<Shared>>, sent: Sent) -> Response {
    let Sent { guest, fields } = sent;
    let Some(push) = &shared.push else { return frame::nowhere().await };
    let endpoint = match push.services.endpoint(fields.one("endpoint")) {
        // As it was read, so that nothing reads it otherwise.
        Ok(endpoint) => String::from(endpoint),
        Err(Refusal::Malformed) => return back(&guest, "That is no address of a push service."),
        Err(Refusal::Unlisted(host)) => {
            let host = short_line(&host, 100);
            return back(
                &guest,
                format!(
                    "Your browser's push service, {host}, is none that this gateway sends to. The operator can add it to PUSH_SERVICES."
                ),
            );
        }
    };
    let visitor = &guest.session.visitor;
    let (user, channel) = (visitor.user, visitor.channel);
    let new = Subscription { endpoint, user, channel, since: Timestamp::now() };
    match push.notes.change(move |all| devices::add(all, new)).await {
        Ok(true) => {
            tracing::info!(user, "a user is told on a device when an agent asks");
            push.new.notify_one();
            back(&guest, "This device tells you when an agent asks.")
        }
        Ok(false) => back(&guest, "Too many devices are told already. Ask the operator."),
        Err(error) => {
            tracing::error!(user, error = %with_causes(&error), "a device is kept until the next restart only");
            push.new.notify_one();
            back(
                &guest,
                "This device tells you when an agent asks, until the next restart: it could not be written down.",
            )
        }
    }
}

/// Switches a device off, or with none named all of somebody's.
pub(in super::super) async fn off(State(shared): State<Arc<Shared>>, sent: Sent) -> Response {
    let Sent { guest, fields } = sent;
    let Some(push) = &shared.push else { return frame::nowhere().await };
    let user = guest.session.visitor.user;
    let named = Some(fields.one("endpoint").to_owned()).filter(|endpoint| !endpoint.is_empty());
    let said = if named.is_some() { "This device" } else { "None of your devices" };
    let done = push.notes.change(move |all| devices::forget(all, user, named.as_deref())).await;
    match done {
        Ok(count) => tracing::info!(user, count, "a user switched devices off"),
        Err(error) => {
            tracing::error!(user, error = %with_causes(&error), "devices of a user are forgotten until the next restart only")
        }
    }
    let does = if said == "This device" { "does not tell" } else { "tells" };
    back(&guest, format!("{said} {does} you any more when an agent asks."))
}

/// The questions that somebody may answer now, for the worker of their device.
pub(in super::super) async fn waiting(State(shared): State<Arc<Shared>>, guest: Guest) -> Response {
    let mut theirs = Vec::new();
    for (lane, question) in shared.dispatcher.open_questions() {
        let standing = guest.standing_in(&shared, &lane).await;
        let person = guest.person(&standing);
        if standing.sees && shared.dispatcher.could_answer(&question.id, &person) {
            theirs.push(json!({
                "id": question.id,
                "place": short_line(&standing.place, 80),
                "title": short_line(&question.title, 150),
            }));
        }
    }
    let count = theirs.len();
    theirs.truncate(TOLD);
    Json(json!({"count": count, "waiting": theirs})).into_response()
}
