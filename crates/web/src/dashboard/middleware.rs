//! Checks every request before a page is rendered, and sets the headers of every response.
//!
//! The checks, in this order: the `Host` header (against DNS rebinding), the headers that show
//! whether another site's page caused the request, the session, the user's current permissions
//! ([`super::access`]), and the secret of the form ([`super::fields`]).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::super::connection::HttpCaller;
use super::{DashboardOrigin, DashboardState, frame};

/// Time limit for a response that is not a stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Allows the dashboard's own files and forms, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Middleware of all pages.
pub(super) async fn check_request(
    State(shared): State<Arc<DashboardState>>,
    ConnectInfo(caller): ConnectInfo<HttpCaller>,
    request: Request,
    next: Next,
) -> Response {
    caller.headers_received();
    let mut response = match refuse_foreign(&shared, request.method(), request.headers()) {
        Some(refusal) => refusal,
        None => {
            tokio::time::timeout(ANSWER_TIMEOUT, next.run(request)).await.unwrap_or_else(|_| {
                frame::plain(StatusCode::SERVICE_UNAVAILABLE, "This takes too long. Try again.")
            })
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Each connection carries one request, so that idle clients are disconnected soon.
        (header::CONNECTION, "close"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Returns the response to a request that is not for this dashboard or was caused by another site's
/// page, or `None` if the request is valid.
fn refuse_foreign(
    shared: &DashboardState,
    method: &Method,
    headers: &HeaderMap,
) -> Option<Response> {
    let ours = [&shared.origin, &shared.local];
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
    if !host.is_some_and(|host| ours.iter().any(|origin| origin.is_host(host))) {
        return Some(frame::plain(
            StatusCode::MISDIRECTED_REQUEST,
            "This is not the address of this dashboard.",
        ));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let text = |name: header::HeaderName| headers.get(name).map(HeaderValue::to_str);
    // A client that sends neither header is not a browser, so no other page can have caused its
    // request.
    let site = headers.get("sec-fetch-site").map(HeaderValue::to_str);
    let from_here = matches!(site, None | Some(Ok("same-origin")));
    let own = |origin: &str| {
        // Browsers send the origin `null` for pages that send no referrer.
        origin == "null" || ours.iter().any(|ours| is_of(origin, ours))
    };
    let own = text(header::ORIGIN).is_none_or(|origin| origin.is_ok_and(own));
    (!from_here || !own)
        .then(|| frame::plain(StatusCode::FORBIDDEN, "This form was sent by another page."))
}

fn is_of(origin: &str, ours: &DashboardOrigin) -> bool {
    DashboardOrigin::parse(origin).is_ok_and(|origin| origin == *ours)
}
