//! The message of a slash command, which is the first of its answer as long as its token works.

use std::time::Instant;

use serde_json::{Value, json};
use tracing::debug;

use super::Live;
use crate::api::Posted;
use crate::heading;
use crate::rest::{RestError, Timeouts};

/// The text of the message once its token expires, or something else was posted below it.
const FOLLOWS: &str = "-# This takes a while: the answer follows below.";

impl Live {
    /// Returns when the token of the command expires, so that [`Live::leave_token`] must be called.
    pub(crate) fn token_expires(&self) -> Option<Instant> {
        self.place.token.as_ref().map(|token| token.expires)
    }

    /// Stops using the command's own message. The answer continues in ordinary messages.
    pub(crate) async fn leave_token(&mut self, timeouts: Timeouts) {
        let Some(mut token) = self.place.token.take() else { return };
        // The token still works for a minute after `expires`.
        if token.was_taken().await {
            let application = self.inner.identity.application;
            let text = heading::under(self.place.heading.as_deref(), FOLLOWS);
            let body = (text.as_str(), &json!([]));
            if let Err(error) = self
                .inner
                .api
                .edit_original_with(application, token.interaction, &token.value, body, timeouts)
                .await
            {
                debug!(channel = self.place.channel, %error, "cannot say that the answer follows");
            }
        }
        self.drop_from(1, timeouts).await;
        self.slots.clear();
        self.note();
    }

    /// Stops using the command's own message if its token no longer works.
    pub(super) async fn check_token(&mut self, timeouts: Timeouts) {
        let Some(token) = &mut self.place.token else { return };
        if !token.is_usable().await {
            self.leave_token(timeouts).await;
        }
    }

    /// Returns whether a message of the answer is the command's own.
    pub(super) fn is_original(&self, index: usize) -> bool {
        index == 0 && self.place.token.is_some()
    }

    /// Edits the command's own message. Drops the token if Discord rejects it.
    pub(super) async fn edit_original(
        &mut self,
        piece: &str,
        rows: &Value,
        timeouts: Timeouts,
    ) -> Result<Posted, RestError> {
        let token = self.place.token.as_ref().expect("asked only with a token");
        let (application, body) = (self.inner.identity.application, (piece, rows));
        let edited = self
            .inner
            .api
            .edit_original_with(application, token.interaction, &token.value, body, timeouts)
            .await;
        if matches!(edited, Err(RestError::Refused { status: 401 | 404, .. })) {
            self.place.token = None;
        }
        edited
    }
}
