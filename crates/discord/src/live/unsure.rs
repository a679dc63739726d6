//! A message that Discord may or may not have created, because it did not answer.

use std::time::{Duration, Instant};

use tracing::debug;

use super::Live;
use crate::api::Posted;
use crate::rest::{RestError, Timeouts};
use crate::wire::id_from;

/// Discord recognises a nonce for some minutes. After this time we search for the message.
const NONCE_SPAN: Duration = Duration::from_secs(120);

/// A message that may or may not have been created.
pub(super) struct Unsure {
    pub(super) nonce: String,
    since: Instant,
    /// The texts that it may have.
    sent: Vec<String>,
}

impl Live {
    /// Records whether Discord confirmed the creation of a message.
    pub(super) fn was_made(&mut self, nonce: &str, piece: &str, post: &Result<Posted, RestError>) {
        if !matches!(post, Err(RestError::Unreachable { .. })) {
            // A refusal does not show whether an earlier attempt succeeded.
            self.unsure.take_if(|_| post.is_ok());
            return;
        }
        let now = self.inner.api.rest.clock().now();
        match &mut self.unsure {
            Some(unsure) if unsure.nonce == nonce => {
                if !unsure.sent.iter().any(|sent| sent == piece) {
                    unsure.sent.push(piece.to_owned());
                }
            }
            // The attempt may have taken the whole time limit.
            other => {
                let since = now.checked_sub(self.inner.options.windows.send.total).unwrap_or(now);
                *other =
                    Some(Unsure { nonce: nonce.to_owned(), since, sent: vec![piece.to_owned()] });
            }
        }
    }

    /// Finds a message that was created without a confirmation, if Discord may have forgotten its
    /// nonce.
    pub(super) async fn find(&self, nonce: &str, timeouts: Timeouts) -> Option<Posted> {
        let unsure = self.unsure.as_ref().filter(|unsure| unsure.nonce == nonce)?;
        let ago = self.inner.api.rest.clock().now().saturating_duration_since(unsure.since);
        if ago < NONCE_SPAN {
            return None;
        }
        let (page, _) =
            self.inner.api.messages_after(self.place.channel, id_from(ago), timeouts).await.ok()?;
        let ours = |id: u64| self.above.iter().chain(&self.slots).any(|slot| slot.id == Some(id));
        let found = page.into_iter().find(|message| {
            let sent = unsure.sent.iter().any(|sent| sent.trim() == message.content.trim());
            sent && message.author.id == self.inner.identity.id && !ours(message.id)
        })?;
        debug!(
            channel = self.place.channel,
            message = found.id,
            "found a message that was posted before discord was away"
        );
        Some(Posted { id: found.id, content: found.content })
    }
}
