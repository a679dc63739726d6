//! Checks every request before a page is rendered, and sets the headers of every response.
//!
//! The checks, in this order: the `Host` header (against DNS rebinding), the headers that show
//! whether another site's page caused the request, the session, the user's current permissions, and
//! the secret of the form.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Form, FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::super::connection::HttpCaller;
use super::frame;
use super::secret::same;
use super::sessions::{DashboardSession, SESSION_AGE};
use super::{DashboardOrigin, DashboardState};
use aetheel_dispatch::Person;
use aetheel_model::access::LanePermissions;
use aetheel_model::event::Lane;

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

/// A signed-in user who still has access.
#[derive(Clone)]
pub(super) struct SignedIn {
    pub(super) session: Arc<DashboardSession>,
    /// Permissions in the channel where the user asked for the sign-in link.
    pub(super) standing: LanePermissions,
    /// Whether browsers without script should reload the page periodically.
    pub(super) reload: bool,
}

impl SignedIn {
    /// Returns the user's current permissions in a lane. For channels, they come from Discord. In
    /// other lanes, owners have all permissions and other users have none. A user whose permissions
    /// cannot be looked up has none.
    pub(super) async fn permissions_in(
        &self,
        shared: &DashboardState,
        lane: &Lane,
    ) -> LanePermissions {
        let user = self.session.visitor.user;
        let Lane::Channel(channel) = lane else {
            let (owner, place) = (self.standing.owner, lane.to_string());
            return LanePermissions {
                sees: owner,
                acts: owner,
                owner,
                place,
                ..LanePermissions::default()
            };
        };
        shared.api.permissions(user, *channel).await.unwrap_or_else(|why| {
            tracing::debug!(user = user.to_field(), %lane, why, "cannot look up a user's permissions; assuming none");
            LanePermissions::default()
        })
    }

    /// Returns the user as a person for the dispatcher, with these permissions.
    pub(super) fn person(&self, standing: &LanePermissions) -> Person {
        Person::User {
            id: self.session.visitor.user,
            roles: standing.roles.clone(),
            owner: standing.owner,
            name: self.session.visitor.name.clone(),
        }
    }
}

/// The reason why a user has no access.
pub(super) enum AccessDenied {
    /// The request has no valid session.
    NotSignedIn,
    /// The user has lost access.
    Forbidden,
    /// Discord did not answer, so the permissions are unknown.
    PermissionsUnknown,
}

impl IntoResponse for AccessDenied {
    fn into_response(self) -> Response {
        let (status, title, text) = match self {
            Self::NotSignedIn => (
                StatusCode::UNAUTHORIZED,
                "Not signed in",
                "You are not signed in. Write /dashboard in Discord, where you talk to the bot: it answers with a link.",
            ),
            Self::Forbidden => (
                StatusCode::FORBIDDEN,
                "Signed out",
                "You can no longer use the bot in the channel where you asked for your link, so you are signed out.",
            ),
            Self::PermissionsUnknown => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Discord does not answer",
                "Your permissions in Discord cannot be checked at the moment. Try again in a minute.",
            ),
        };
        frame::notice(status, title, text)
    }
}

/// Returns the session of a request.
pub(super) fn session_of(
    shared: &DashboardState,
    headers: &HeaderMap,
) -> Result<Arc<DashboardSession>, AccessDenied> {
    let name = cookie_name(&shared.origin);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut secrets = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .filter(|(given, _)| *given == name)
        .map(|(_, secret)| secret);
    secrets
        .find_map(|secret| shared.sessions.session(secret, Instant::now()))
        .ok_or(AccessDenied::NotSignedIn)
}

/// Checks whether a signed-in user still has access. Ends the session if not.
pub(super) async fn check_access(
    shared: &DashboardState,
    session: Arc<DashboardSession>,
) -> Result<SignedIn, AccessDenied> {
    if session.over.is_cancelled() {
        return Err(AccessDenied::Forbidden);
    }
    let (user, channel) = (session.visitor.user, session.visitor.channel);
    match shared.api.permissions(user, channel).await {
        Ok(standing) if standing.sees => Ok(SignedIn { session, standing, reload: false }),
        Ok(_) => {
            tracing::info!(
                user = user.to_field(),
                "a user can no longer use the bot, and is signed out of the dashboard"
            );
            shared.sessions.end(&session);
            Err(AccessDenied::Forbidden)
        }
        Err(why) => {
            tracing::warn!(
                user = user.to_field(),
                why,
                "cannot check the permissions of a dashboard user in discord"
            );
            Err(AccessDenied::PermissionsUnknown)
        }
    }
}

impl FromRequestParts<Arc<DashboardState>> for SignedIn {
    type Rejection = AccessDenied;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<DashboardState>,
    ) -> Result<Self, Self::Rejection> {
        let guest = check_access(shared, session_of(shared, &parts.headers)?).await?;
        Ok(Self { reload: parts.uri.query() == Some("again"), ..guest })
    }
}

pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Returns the first field with this name, or an empty string if there is no such field.
    pub(super) fn one(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map_or("", |(_, value)| value)
    }

    /// Returns all fields with this name that are not empty.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let of = self.0.iter().filter(move |(given, _)| given == name);
        of.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }
}

/// A form with a valid secret, from a signed-in user who still has access.
pub(super) struct SubmittedForm {
    pub(super) guest: SignedIn,
    pub(super) fields: FormFields,
}

impl FromRequest<Arc<DashboardState>> for SubmittedForm {
    type Rejection = Response;

    async fn from_request(
        request: Request,
        shared: &Arc<DashboardState>,
    ) -> Result<Self, Self::Rejection> {
        let SessionForm { session, fields } = SessionForm::from_request(request, shared).await?;
        let guest = check_access(shared, session).await.map_err(IntoResponse::into_response)?;
        Ok(Self { guest, fields })
    }
}

/// A form with a valid secret, from a signed-in user who may have lost access. Used for signing
/// out.
pub(super) struct SessionForm {
    pub(super) session: Arc<DashboardSession>,
    fields: FormFields,
}

impl FromRequest<Arc<DashboardState>> for SessionForm {
    type Rejection = Response;

    async fn from_request(
        request: Request,
        shared: &Arc<DashboardState>,
    ) -> Result<Self, Self::Rejection> {
        let session = session_of(shared, request.headers()).map_err(IntoResponse::into_response)?;
        let fields = fields(request, shared).await?;
        if !same(fields.one("csrf"), session.csrf()) {
            let text =
                "This form belongs to another session. Go back, reload the page and try again.";
            return Err(frame::notice(StatusCode::FORBIDDEN, "Not done", text));
        }
        Ok(Self { session, fields })
    }
}

/// Reads the fields of a form, without any check.
pub(super) async fn fields(
    request: Request,
    shared: &Arc<DashboardState>,
) -> Result<FormFields, Response> {
    let form = Form::<Vec<(String, String)>>::from_request(request, shared).await;
    form.map(|Form(fields)| FormFields(fields)).map_err(|_| invalid_form())
}

/// Returns the response to a form that is invalid or too long.
pub(super) fn invalid_form() -> Response {
    let text = "This is not a form of this dashboard, or it is too long.";
    frame::plain(StatusCode::BAD_REQUEST, text)
}

/// Returns the cookie of a new session, or with `None` the cookie that removes it.
pub(super) fn cookie(origin: &DashboardOrigin, secret: Option<&str>) -> HeaderValue {
    let (value, age) = secret.map_or(("", 0), |secret| (secret, SESSION_AGE.as_secs()));
    let secure = if origin.is_secure() { "; Secure" } else { "" };
    let text = format!(
        "{}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}",
        cookie_name(origin)
    );
    HeaderValue::from_str(&text).expect("the value is ASCII without control characters")
}

/// Returns the name of the session cookie. Browsers accept a cookie with the prefix `__Host-` only
/// over TLS, and send it only to this host.
fn cookie_name(origin: &DashboardOrigin) -> &'static str {
    if origin.is_secure() { "__Host-aetheel" } else { "aetheel-dashboard" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_hidden_from_scripts_and_other_sites_and_bound_to_tls_and_host() {
        let plain = DashboardOrigin::parse("http://127.0.0.1:8788").unwrap();
        assert_eq!(
            cookie(&plain, Some("abc")),
            "aetheel-dashboard=abc; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"
        );
        let secure = DashboardOrigin::parse("https://agents.example.com").unwrap();
        assert_eq!(
            cookie(&secure, None),
            "__Host-aetheel=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure"
        );
    }
}
