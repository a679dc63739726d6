//! A command's own message: the first of its answer, as long as its token works.

use std::time::Instant;

use serde_json::{Value, json};
use tracing::debug;

use super::Live;
use crate::api::Posted;
use crate::heading;
use crate::rest::{RestError, Timeouts};

/// The text of the message once its token is about to run out, or something else stands below it.
const FOLLOWS: &str = "-# This takes a while: the answer follows below.";

impl Live {
    /// When the command's token must not be used any more, so that [`Live::leave_token`] is due.
    pub(crate) fn token_expires(&self) -> Option<Instant> {
        self.place.token.as_ref().map(|token| token.expires)
    }

    /// Leaves the command's own message behind; what follows are ordinary messages.
    pub(crate) async fn leave_token(&mut self, timeouts: Timeouts) {
        let Some(mut token) = self.place.token.take() else { return };
        // Taken early enough that the token still has a minute.
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

    /// Leaves the command's own message behind where its token works no more.
    pub(super) async fn check_token(&mut self, timeouts: Timeouts) {
        let Some(token) = &mut self.place.token else { return };
        if !token.is_usable().await {
            self.leave_token(timeouts).await;
        }
    }

    /// Whether a message of the answer is the command's own.
    pub(super) fn is_original(&self, index: usize) -> bool {
        index == 0 && self.place.token.is_some()
    }

    /// Has the command's own message show this; gives the token up when Discord refuses it.
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
