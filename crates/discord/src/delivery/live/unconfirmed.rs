//! A message that Discord may or may not have created, because it did not answer.

use std::time::{Duration, Instant};

use tracing::debug;

use super::Live;
use crate::api::PostedMessage;
use crate::rest::{RestError, Timeouts};
use crate::wire::first_id_since;

/// The time after which the message is searched for. Discord recognises a nonce only for some
/// minutes.
const NONCE_SPAN: Duration = Duration::from_secs(120);

/// A message that may or may not have been created.
pub(super) struct UnconfirmedPost {
    pub(super) nonce: String,
    since: Instant,
    /// The texts that it may have.
    texts: Vec<String>,
}

impl Live {
    /// Records whether Discord confirmed the creation of a message.
    pub(super) fn record_post(
        &mut self,
        nonce: &str,
        piece: &str,
        post: &Result<PostedMessage, RestError>,
    ) {
        if !matches!(post, Err(RestError::Unreachable { .. })) {
            // A refusal does not show whether an earlier attempt succeeded.
            self.unconfirmed.take_if(|_| post.is_ok());
            return;
        }
        let now = self.inner.api.rest.clock().now();
        match &mut self.unconfirmed {
            Some(unsure) if unsure.nonce == nonce => {
                if !unsure.texts.iter().any(|sent| sent == piece) {
                    unsure.texts.push(piece.to_owned());
                }
            }
            // No confirmation. The attempt may have taken the whole time limit.
            other => {
                let since =
                    now.checked_sub(self.inner.options.time_limits.send.total).unwrap_or(now);
                *other = Some(UnconfirmedPost {
                    nonce: nonce.to_owned(),
                    since,
                    texts: vec![piece.to_owned()],
                });
            }
        }
    }

    /// Finds a message that was created without a confirmation, if Discord may have forgotten its
    /// nonce.
    pub(super) async fn find_unconfirmed(
        &self,
        nonce: &str,
        timeouts: Timeouts,
    ) -> Option<PostedMessage> {
        let unsure = self.unconfirmed.as_ref().filter(|unsure| unsure.nonce == nonce)?;
        let ago = self.inner.api.rest.clock().now().saturating_duration_since(unsure.since);
        if ago < NONCE_SPAN {
            return None;
        }
        let (page, _) = self
            .inner
            .api
            .messages_after(self.target.channel, first_id_since(ago), timeouts)
            .await
            .ok()?;
        let ours = |id: u64| self.frozen.iter().chain(&self.slots).any(|slot| slot.id == Some(id));
        let found = page.into_iter().find(|message| {
            let sent = unsure.texts.iter().any(|sent| sent.trim() == message.content.trim());
            sent && message.author.id == self.inner.identity.id && !ours(message.id)
        })?;
        debug!(
            channel = self.target.channel,
            message = found.id,
            "found a message that was posted before discord became unreachable"
        );
        Some(PostedMessage { id: found.id, content: found.content })
    }
}
