//! The command that signs people in to the dashboard, and the notices in channels about actions
//! from the dashboard. Tested by `tests/gateway/dashboard/`.

use std::sync::Arc;

use tracing::{info, warn};

use super::api::nonce;
use super::questions::escape;
use super::wire::SlashInteraction;
use super::{Discord, quote};
use aetheel_model::access::SignInRequest;
use aetheel_model::plain::short_line;

/// The beginning of a notice about an action from the dashboard.
const MARK: &str = "🖥️";

/// Signs people in to the dashboard.
pub trait SignInService: Send + Sync {
    /// Creates a sign-in link for a person. It works once, within a few minutes.
    ///
    /// # Errors
    /// The reason for the refusal, worded for that person.
    fn link(&self, visitor: SignInRequest) -> Result<String, String>;

    /// Ends all sessions and links of a user. Returns the number of sessions.
    fn revoke(&self, user: u64) -> usize;
}

/// Carries out `/dashboard` for a person who may use the bot. Returns the private answer.
pub(super) fn run_command(
    sign_in: Option<&Arc<dyn SignInService>>,
    slash: &SlashInteraction,
) -> String {
    let Some(sign_in) = sign_in else {
        return "The dashboard is not ready yet. Please try again in a minute.".to_owned();
    };
    let user = slash.user.id;
    match slash.options.first().map(|(_, value)| value.trim()).unwrap_or_default() {
        "" => {
            let name = short_line(slash.nick.as_deref().unwrap_or(slash.user.display_name()), 64);
            match sign_in.link(SignInRequest { user, name, channel: slash.channel }) {
                Ok(link) => {
                    info!(user, channel = slash.channel, "created a dashboard link for a user");
                    // Angle brackets prevent a preview of the page.
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
                0 => "You were not signed in. Your earlier links no longer work.".to_owned(),
                1 => "Done: you are signed out of the dashboard.".to_owned(),
                count => format!("Done: you are signed out of the dashboard, {count} times."),
            }
        }
        _ => "The only action is `revoke`. Without an action you get a link.".to_owned(),
    }
}

impl Discord {
    /// Enables `/dashboard`, with the given service. Only the first call has an effect.
    pub fn set_sign_in(&self, sign_in: Arc<dyn SignInService>) {
        let _ = self.inner.sign_in.set(sign_in);
    }

    /// Posts a notice about an action from the dashboard, in a channel or else in the operator's
    /// output channel. Returns the id of the message.
    ///
    /// # Errors
    /// The reason for which it was not posted.
    pub async fn report(&self, channel: Option<u64>, who: &str, did: &str) -> Result<u64, String> {
        let Some(channel) = channel.or(self.inner.options.output_channel) else {
            return Err("there is no channel for notices; set OUTPUT_CHANNEL_ID".to_owned());
        };
        let line = escape(&short_line(&self.inner.options.redactor.redact(did.to_owned()), 300));
        self.post_notice(channel, &format!("-# {MARK} {} {line}", escape(who))).await
    }

    /// Posts the text that a person sent from the dashboard to the agent of a channel. Returns the
    /// id of the message.
    ///
    /// # Errors
    /// See [`Discord::report`].
    pub async fn report_message(
        &self,
        channel: u64,
        who: &str,
        words: &str,
    ) -> Result<u64, String> {
        let quoted = quote::quote_line(words, &self.inner.options.redactor);
        self.post_notice(channel, &format!("{quoted}\n-# {MARK} {} in the dashboard", escape(who)))
            .await
    }

    async fn post_notice(&self, channel: u64, text: &str) -> Result<u64, String> {
        let timeouts = self.inner.options.time_limits.send;
        match self.inner.api.post(channel, None, &nonce(), text, timeouts).await {
            Ok(posted) => Ok(posted.id),
            Err(error) => {
                warn!(channel, %error, "cannot report an action from the dashboard in discord");
                Err(error.to_string())
            }
        }
    }
}
