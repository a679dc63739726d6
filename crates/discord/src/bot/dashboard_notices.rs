//! The notices in channels about actions from the dashboard. Tested by `tests/gateway/dashboard/`.

use std::sync::Arc;

use tracing::warn;

use super::Discord;
use crate::api::nonce;
use crate::panel::dashboard::SignInService;
use crate::rest::RestError;
use crate::text::markdown::escape;
use crate::text::quote;
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::plain::short_line;

/// The beginning of a notice about an action from the dashboard.
const MARK: &str = "🖥️";

/// The reason why a notice about an action from the dashboard was not posted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// The action has no channel, and no output channel is set.
    #[error("there is no channel for notices; set OUTPUT_CHANNEL_ID")]
    NoChannel,
    /// The channel belongs to another chat platform.
    #[error("the channel {0} is not in discord")]
    OtherPlatform(ChannelId),
    /// Discord did not accept it.
    #[error(transparent)]
    Discord(#[from] RestError),
}

impl Discord {
    /// Enables `/dashboard`, with the given service. Only the first call has an effect.
    pub fn set_sign_in(&self, sign_in: Arc<dyn SignInService>) {
        let _ = self.inbound.sign_in.set(sign_in);
    }

    /// Posts a notice about an action from the dashboard, in a channel or else in the operator's
    /// output channel. Returns the id of the message.
    ///
    /// # Errors
    /// [`NoticeError`].
    pub async fn report(
        &self,
        channel: Option<ChannelId>,
        who: &str,
        did: &str,
    ) -> Result<MessageId, NoticeError> {
        let channel = channel.or(self.inner.options.settings.output_channel);
        let channel = channel.ok_or(NoticeError::NoChannel)?;
        let channel = channel.as_discord().ok_or(NoticeError::OtherPlatform(channel))?;
        let line = escape(&short_line(&self.inner.options.redactor.redact(did.to_owned()), 300));
        Ok(self.post_notice(channel, &format!("-# {MARK} {} {line}", escape(who))).await?)
    }

    /// Posts the text that a person sent from the dashboard to the agent of a channel. Returns the
    /// id of the message.
    ///
    /// # Errors
    /// [`NoticeError`].
    pub async fn report_message(
        &self,
        channel: ChannelId,
        who: &str,
        words: &str,
    ) -> Result<MessageId, NoticeError> {
        let channel = channel.as_discord().ok_or(NoticeError::OtherPlatform(channel))?;
        let quoted = quote::quote_line(words, &self.inner.options.redactor);
        let text = format!("{quoted}\n-# {MARK} {} in the dashboard", escape(who));
        Ok(self.post_notice(channel, &text).await?)
    }

    async fn post_notice(&self, channel: u64, text: &str) -> Result<MessageId, RestError> {
        let timeouts = self.inner.options.time_limits.send;
        match self.inner.api.post(channel, None, &nonce(), text, timeouts).await {
            Ok(posted) => Ok(MessageId::discord(posted.id)),
            Err(error) => {
                warn!(channel, %error, "cannot report an action from the dashboard in discord");
                Err(error)
            }
        }
    }
}
