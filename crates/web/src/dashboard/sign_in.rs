//! Sign-in and sign-out. A sign-in link only shows a button, so that programs that open it for a
//! preview do not use it up.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use super::super::connection::HttpCaller;
use super::access::cookie;
use super::components::{Button, Form};
use super::fields::{SessionForm, form_fields};
use super::{DashboardState, frame};
use aetheel_model::audit::AuditKind;

const OLD: &str = "This link is no longer valid: a link works once, within five minutes. Write /dashboard in Discord to get a new one.";

/// Shows the page of a sign-in link.
pub(super) async fn door(
    State(shared): State<Arc<DashboardState>>,
    Path(link): Path<String>,
) -> Response {
    if !shared.sessions.is_open(&link, Instant::now()) {
        return frame::notice(StatusCode::NOT_FOUND, "Sign in", OLD);
    }
    let form = Form::open("/enter").hidden("link", link).with(Button::main("Sign in"));
    let button = html! {
        p { "This signs you in on this device, for twelve hours at most." }
        (form)
    };
    frame::outside(StatusCode::OK, "Sign in", &button)
}

/// Creates a session after the button was pressed.
pub(super) async fn enter(
    State(shared): State<Arc<DashboardState>>,
    ConnectInfo(caller): ConnectInfo<HttpCaller>,
    request: Request,
) -> Response {
    let fields = match form_fields(request, &shared).await {
        Ok(fields) => fields,
        Err(refusal) => return refusal,
    };
    let (now, address) = (Instant::now(), caller.address.ip());
    let Some(secret) = shared.sessions.enter(fields.one("link"), now) else {
        // The limit applies only to invalid links, so that failures of other users never block the
        // owner of a valid link.
        if shared.sessions.is_kept_out(address, now) {
            return frame::plain(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many attempts. Wait a minute.",
            );
        }
        shared.sessions.failed(address, now);
        tracing::warn!(%address, "somebody opened the dashboard with an invalid sign-in link");
        return frame::notice(StatusCode::NOT_FOUND, "Sign in", OLD);
    };
    if let Some(session) = shared.sessions.session(&secret, now) {
        let user = session.visitor.user;
        tracing::info!(user = user.to_field(), %address, "a user signed in to the dashboard");
        session.audit(AuditKind::DashboardSignIn).with("address", address).note();
    }
    let cookie = cookie(&shared.origin, Some(&secret));
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

/// Signs the user out. Works even if Discord does not answer.
pub(super) async fn leave(
    State(shared): State<Arc<DashboardState>>,
    leaving: SessionForm,
) -> Response {
    let session = leaving.session;
    shared.sessions.end(&session);
    session.audit(AuditKind::DashboardSignOut).note();
    tracing::info!(user = session.visitor.user.to_field(), "a user signed out of the dashboard");
    let cookie = cookie(&shared.origin, None);
    let page = frame::notice(StatusCode::OK, "Signed out", "You are signed out on this device.");
    ([(header::SET_COOKIE, cookie)], page).into_response()
}
