//! What the dashboard and Discord have to do with each other: the command that lets somebody in,
//! and words in a channel about what somebody did from there. Pinned by `tests/gateway/dashboard/`.

use std::sync::Arc;

use tracing::{info, warn};

use super::api::nonce;
use super::asks::escape;
use super::wire::Slash;
use super::{Discord, heading};
use aetheel_model::access::Visitor;
use aetheel_model::plain::short_line;

/// What stands before whatever was done from the dashboard.
const MARK: &str = "🖥️";

/// Lets people into the dashboard.
pub trait SignIn: Send + Sync {
    /// Makes a link for somebody, which works once and for a few minutes.
    ///
    /// # Errors
    /// Why there is none, in words for that person.
    fn link(&self, visitor: Visitor) -> Result<String, String>;

    /// Ends all sessions and links of a user; returns how many sessions there were.
    fn revoke(&self, user: u64) -> usize;
}

/// Carries `/dashboard` out for somebody who was let in; returns the answer, for that person alone.
pub(super) fn carry_out(sign_in: Option<&Arc<dyn SignIn>>, slash: &Slash) -> String {
    let Some(sign_in) = sign_in else {
        return "The dashboard is not there yet. Please ask again in a minute.".to_owned();
    };
    let user = slash.user.id;
    match slash.given.first().map(|(_, value)| value.trim()).unwrap_or_default() {
        "" => {
            let name = short_line(slash.nick.as_deref().unwrap_or(slash.user.shown()), 64);
            match sign_in.link(Visitor { user, name, channel: slash.channel }) {
                Ok(link) => {
                    info!(user, channel = slash.channel, "gave a user a link to the dashboard");
                    // In angle brackets nothing is shown of what is behind it.
                    format!(
                        "<{link}>\nThis is for you alone: it works once, within five minutes. `/dashboard action:revoke` signs you out everywhere."
                    )
                }
                Err(why) => why,
            }
        }
        "revoke" => {
            let ended = sign_in.revoke(user);
            info!(user, ended, "a user signed out of the dashboard");
            match ended {
                0 => "You were not signed in. Links that you had work no longer.".to_owned(),
                1 => "Done: you are signed out of the dashboard.".to_owned(),
                count => format!("Done: you are signed out of the dashboard, {count} times."),
            }
        }
        _ => "I only know `revoke` here. Without it you get a link.".to_owned(),
    }
}

impl Discord {
    /// From now on `/dashboard` has somebody to ask. Counts once.
    pub fn offer_sign_in(&self, sign_in: Arc<dyn SignIn>) {
        let _ = self.inner.sign_in.set(sign_in);
    }

    /// Says in a channel, or with none in the operator's output channel, what somebody did from the
    /// dashboard, and returns the message's id.
    ///
    /// # Errors
    /// Why nobody there will see it.
    pub async fn report(&self, channel: Option<u64>, who: &str, did: &str) -> Result<u64, String> {
        let Some(channel) = channel.or(self.inner.options.output_channel) else {
            return Err("there is no channel for notices; set OUTPUT_CHANNEL_ID".to_owned());
        };
        let line = escape(&short_line(&self.inner.options.redactor.clean(did.to_owned()), 300));
        self.say(channel, &format!("-# {MARK} {} {line}", escape(who))).await
    }

    /// Says in a channel what somebody wrote to its agent from the dashboard, and returns the
    /// message's id.
    ///
    /// # Errors
    /// As [`Discord::report`].
    pub async fn repeat(&self, channel: u64, who: &str, words: &str) -> Result<u64, String> {
        let quoted = heading::line(words, &self.inner.options.redactor);
        self.say(channel, &format!("{quoted}\n-# {MARK} {} in the dashboard", escape(who))).await
    }

    async fn say(&self, channel: u64, text: &str) -> Result<u64, String> {
        let timeouts = self.inner.options.windows.send;
        match self.inner.api.post(channel, None, &nonce(), text, timeouts).await {
            Ok(posted) => Ok(posted.id),
            Err(error) => {
                warn!(channel, %error, "cannot say in discord what was done from the dashboard");
                Err(error.to_string())
            }
        }
    }
}
