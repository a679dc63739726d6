//! Makes forms idempotent. With a double click, the browser sends a form twice, closes the first
//! connection and ignores its response.
//!
//! The forms of a session are processed one after the other, and each is completed even if the
//! client disconnects. A form that is repeated within a second gets the result of the first one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use super::secret::digest;
use super::sessions::CompletedForm;
use super::{DashboardState, MAX_FORM_BYTES, access, fields, frame};

/// A form that is repeated within this time is not processed again.
const REPEAT_WINDOW: Duration = Duration::from_secs(1);

/// Middleware of all forms.
pub(super) async fn once(
    State(shared): State<Arc<DashboardState>>,
    request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    // Without a session, a form has no effect that could be repeated by mistake.
    let Ok(session) = access::session_of(&shared, request.headers()) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_FORM_BYTES).await else { return fields::invalid_form() };
    let form = digest([parts.uri.path().as_bytes(), b"\n", &body].concat());
    let mut last = Arc::clone(&session.last).lock_owned().await;
    let again = |done: &&CompletedForm| done.form == form && done.at.elapsed() < REPEAT_WINDOW;
    if let Some(done) = last.as_ref().filter(again) {
        if let Some(notice) = &done.notice {
            session.set_notice(notice);
        }
        return Redirect::to(&done.to).into_response();
    }
    let done = tokio::spawn(async move {
        let response = next.run(Request::from_parts(parts, Body::from(body))).await;
        let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
        *last = to.map(|to| CompletedForm {
            form,
            at: Instant::now(),
            to: to.to_owned(),
            notice: session.notice(),
        });
        response
    });
    done.await.unwrap_or_else(|_| {
        let text = "This failed. The gateway's log has the reason.";
        frame::plain(StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}
