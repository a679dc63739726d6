//! The command that signs people in to the dashboard. Tested by `tests/gateway/dashboard/`.

use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use crate::wire::Interaction;
use aetheel_model::access::SignInRequest;
use aetheel_model::id::{ChannelId, UserId};

/// A person asked for too many links, and may ask again after this time. Worded for that person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("You asked for too many links. Ask again in {} s.", .0.as_secs() + 1)]
pub struct TooManyLinks(pub Duration);

/// Signs people in to the dashboard.
pub trait SignInService: Send + Sync {
    /// Creates a sign-in link for a person. It works once, within a few minutes.
    ///
    /// # Errors
    /// [`TooManyLinks`].
    fn link(&self, visitor: SignInRequest) -> Result<String, TooManyLinks>;

    /// Ends all sessions and links of a user. Returns the number of sessions.
    fn revoke(&self, user: UserId) -> usize;
}

/// The note below a link that other devices cannot open.
const LOCAL_ONLY: &str = "\n⚠️ The dashboard has no public address: the link opens only on the gateway's own machine, or through a tunnel to it. The operator sets `DASHBOARD_URL` to an address that other devices can open.";

/// Returns whether only the gateway's own machine can open a link.
fn is_local(link: &str) -> bool {
    let host = link.split_once("://").map_or(link, |(_, rest)| rest);
    ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local))
}

/// Carries out `/dashboard` for a person who may use the bot. Returns the private answer.
pub(crate) fn run_command(sign_in: Option<&Arc<dyn SignInService>>, slash: &Interaction) -> String {
    let Some(sign_in) = sign_in else {
        return "The dashboard is not ready yet. Please try again in a minute.".to_owned();
    };
    let user = slash.user().id;
    let action = slash.data.options.first().and_then(|option| option.value.as_str());
    match action.unwrap_or_default().trim() {
        "" => match sign_in.link(SignInRequest {
            user: UserId::discord(user),
            name: slash.name(),
            channel: ChannelId::discord(slash.channel),
        }) {
            Ok(link) => {
                info!(user, channel = slash.channel, "created a dashboard link for a user");
                // Angle brackets prevent a preview of the page.
                let local = if is_local(&link) { LOCAL_ONLY } else { "" };
                format!(
                    "<{link}>\nThis is for you alone: it works once, within five minutes. `/dashboard action:revoke` signs you out everywhere.{local}"
                )
            }
            Err(refusal) => refusal.to_string(),
        },
        "revoke" => {
            let ended = sign_in.revoke(UserId::discord(user));
            info!(user, ended, "a user signed out of the dashboard");
            match ended {
                0 => "You were not signed in. Your earlier links no longer work.".to_owned(),
                1 => "Done: you are signed out of the dashboard.".to_owned(),
                count => format!("Done: you are signed out of the dashboard, {count} times."),
            }
        }
        _ => "The only action is `revoke`. Without an action you get a link.".to_owned(),
    }
}
