//! The message of a slash command, which is the first of its answer as long as its token works.

use std::time::Instant;

use serde_json::{Value, json};
use tracing::debug;

use super::Live;
use crate::api::PostedMessage;
use crate::rest::{RestError, Timeouts};
use crate::text::quote;

/// The text of the message once its token expires, or another message was posted below it.
const FOLLOWS_BELOW: &str = "-# This takes a while: the answer follows below.";

impl Live {
    /// Returns when the token of the command expires, so that [`Live::abandon_token`] must be
    /// called.
    pub(crate) fn token_expires(&self) -> Option<Instant> {
        self.target.token.as_ref().map(|token| token.expires)
    }

    /// Stops using the command's own message. The answer continues in ordinary messages.
    pub(crate) async fn abandon_token(&mut self, timeouts: Timeouts) {
        let Some(mut token) = self.target.token.take() else { return };
        // The token still works for a minute after `expires`.
        if token.was_acknowledged().await {
            let application = self.inner.identity.application;
            let text = quote::with_quote(self.target.heading.as_deref(), FOLLOWS_BELOW);
            if let Err(error) = self
                .inner
                .api
                .responses
                .edit(application, token.interaction, &token.value, &text, &json!([]), timeouts)
                .await
            {
                debug!(channel = self.target.channel, %error, "cannot say that the answer follows");
            }
        }
        self.drop_from(1, timeouts).await;
        self.slots.clear();
        self.save_ids();
    }

    /// Stops using the command's own message if its token no longer works.
    pub(super) async fn check_token(&mut self, timeouts: Timeouts) {
        let Some(token) = &mut self.target.token else { return };
        if !token.is_usable().await {
            self.abandon_token(timeouts).await;
        }
    }

    /// Returns whether a message of the answer is the command's own.
    pub(super) fn is_original(&self, index: usize) -> bool {
        index == 0 && self.target.token.is_some()
    }

    /// Edits the command's own message. Drops the token if Discord rejects it.
    pub(super) async fn edit_original(
        &mut self,
        piece: &str,
        rows: &Value,
        timeouts: Timeouts,
    ) -> Result<PostedMessage, RestError> {
        let token = self.target.token.as_ref().expect("asked only with a token");
        let application = self.inner.identity.application;
        let edited = self
            .inner
            .api
            .responses
            .edit(application, token.interaction, &token.value, piece, rows, timeouts)
            .await;
        if matches!(edited, Err(RestError::Refused { status: 401 | 404, .. })) {
            self.target.token = None;
        }
        edited
    }
}
