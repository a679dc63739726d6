//! Signed-in users: their sessions, their current permissions, and the record of their actions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use tokio::task::JoinSet;

use super::sessions::{DashboardSession, SESSION_AGE};
use super::{DashboardOrigin, DashboardState, frame};
use aetheel_dispatch::{Dispatcher, Person};
use aetheel_model::access::LanePermissions;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, UserId};

/// A signed-in user who still has access.
#[derive(Clone)]
pub(super) struct SignedIn {
    pub(super) shared: Arc<DashboardState>,
    pub(super) session: Arc<DashboardSession>,
    /// The permissions in the channel where the user asked for the sign-in link.
    pub(super) permissions: LanePermissions,
    /// Whether browsers without script should reload the page periodically.
    pub(super) reload: bool,
}

impl SignedIn {
    pub(super) fn services(&self) -> &Dispatcher {
        &self.shared.services
    }

    pub(super) fn is_owner(&self) -> bool {
        self.permissions.owner
    }

    pub(super) fn id(&self) -> UserId {
        self.session.visitor.user
    }

    pub(super) fn name(&self) -> &str {
        &self.session.visitor.name
    }

    /// Returns the user's current permissions in a lane. For channels, they come from Discord. In
    /// other lanes, owners have all permissions and other users have none. A user whose permissions
    /// cannot be looked up has none.
    pub(super) async fn permissions_in(&self, lane: &Lane) -> LanePermissions {
        let user = self.id();
        let Lane::Channel(channel) = lane else {
            let (owner, place) = (self.is_owner(), lane.to_string());
            return LanePermissions {
                sees: owner,
                acts: owner,
                owner,
                place,
                ..LanePermissions::default()
            };
        };
        self.shared.api.permissions(user, *channel).await.unwrap_or_else(|why| {
            tracing::debug!(user = user.to_field(), %lane, why, "cannot look up a user's permissions; assuming none");
            LanePermissions::default()
        })
    }

    /// Returns the user's permissions in a lane, or `None` if the user may not see it.
    pub(super) async fn visible(&self, lane: &Lane) -> Option<LanePermissions> {
        Some(self.permissions_in(lane).await).filter(|permissions| permissions.sees)
    }

    /// Looks up the user's permissions in all these lanes at the same time, and returns them with
    /// the item of each lane, in the order of the lanes.
    pub(super) async fn permissions_in_all<T: Send + 'static>(
        &self,
        lanes: impl IntoIterator<Item = (Lane, T)>,
    ) -> Vec<(LanePermissions, T)> {
        let mut lookups = JoinSet::new();
        for (at, (lane, item)) in lanes.into_iter().enumerate() {
            let user = self.clone();
            lookups.spawn(async move { (at, user.permissions_in(&lane).await, item) });
        }
        let mut found = Vec::new();
        while let Some(lookup) = lookups.join_next().await {
            // A lane is left out if its task panicked.
            found.extend(lookup);
        }
        found.sort_by_key(|(at, ..)| *at);
        found.into_iter().map(|(_, permissions, item)| (permissions, item)).collect()
    }

    /// Returns the user as a person for the dispatcher, with these permissions.
    pub(super) fn person(&self, permissions: &LanePermissions) -> Person {
        Person::User {
            id: self.id(),
            roles: permissions.roles.clone(),
            owner: permissions.owner,
            name: self.name().to_owned(),
        }
    }

    /// Begins an entry of the audit log about an action of the user.
    pub(super) fn audit(&self, kind: AuditKind) -> AuditEntry {
        self.session.audit(kind)
    }

    /// Posts a message about an action in the channel of a lane.
    pub(super) async fn announce(&self, lane: &Lane, did: &str) {
        if let Lane::Channel(channel) = lane {
            self.announce_in(Some(*channel), did).await;
        }
    }

    /// Posts a message about an action in a channel, or without one in the operator's output
    /// channel. The action is complete even if Discord does not accept the message.
    pub(super) async fn announce_in(&self, channel: Option<ChannelId>, did: &str) {
        let _ = self.shared.api.post_action(channel, self.name(), did).await;
    }

    /// Returns a redirect to a page that shows a message, unless the message is empty.
    pub(super) fn redirect(&self, path: &str, notice: impl Into<String>) -> Response {
        self.session.set_notice(notice);
        Redirect::to(path).into_response()
    }
}

/// The permissions of a user in the lanes of a page. Each lane is looked up once.
pub(super) struct LaneLookup<'a> {
    user: &'a SignedIn,
    known: HashMap<Lane, LanePermissions>,
    /// The largest number of lanes that are looked up in Discord.
    most: usize,
}

impl<'a> LaneLookup<'a> {
    pub(super) fn new(user: &'a SignedIn, most: usize) -> Self {
        Self { user, known: HashMap::new(), most }
    }

    /// Returns the user's permissions in a lane, or `None` if too many other lanes were looked up.
    pub(super) async fn permissions_in(&mut self, lane: &Lane) -> Option<&LanePermissions> {
        if !self.known.contains_key(lane) && self.known.len() < self.most {
            let permissions = self.user.permissions_in(lane).await;
            self.known.insert(lane.clone(), permissions);
        }
        self.known.get(lane)
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
    shared: &Arc<DashboardState>,
    session: Arc<DashboardSession>,
) -> Result<SignedIn, AccessDenied> {
    if session.over.is_cancelled() {
        return Err(AccessDenied::Forbidden);
    }
    let (user, channel) = (session.visitor.user, session.visitor.channel);
    match shared.api.permissions(user, channel).await {
        Ok(permissions) if permissions.sees => {
            Ok(SignedIn { shared: Arc::clone(shared), session, permissions, reload: false })
        }
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
        let user = check_access(shared, session_of(shared, &parts.headers)?).await?;
        Ok(Self { reload: parts.uri.query() == Some("again"), ..user })
    }
}

/// A signed-in user who is an owner. For other users, the page does not exist.
pub(super) struct Owner(pub(super) SignedIn);

impl FromRequestParts<Arc<DashboardState>> for Owner {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<DashboardState>,
    ) -> Result<Self, Self::Rejection> {
        match SignedIn::from_request_parts(parts, shared).await {
            Ok(user) if user.is_owner() => Ok(Self(user)),
            Ok(_) => Err(frame::not_found().await),
            Err(denied) => Err(denied.into_response()),
        }
    }
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
