//! Questions of a previous process. A question whose turn continues keeps its message; all others
//! are closed.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{MessageLocation, QuestionBoard, layout};
use crate::api::Api;
use crate::api::endpoints::Endpoint;
use crate::rest::{RestError, Timeouts};
use crate::wire::Message;
use aetheel_dispatch::OpenQuestion;

/// How long a written answer waits until its turn is resumed, and how often that is checked.
const RESUME_LIMIT: Duration = Duration::from_secs(10);
const RESUME_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The private reply to a press before the turn is resumed.
pub(super) const RESUMING_TEXT: &str = "I have just restarted. Please try again in a few seconds.";

impl QuestionBoard {
    /// Keeps these questions of a previous process open, because their turns continue.
    pub(crate) fn keep_open(&self, ids: &[String]) {
        let left = self.notes.take_open_questions(|id| ids.iter().any(|wanted| wanted == id));
        let left = left
            .into_iter()
            .map(|(id, channel, message)| (id, MessageLocation { channel, message }));
        self.resuming.lock().extend(left);
    }

    /// Returns whether the turn of a question is still being resumed.
    pub(super) fn is_resuming(&self, id: &str) -> bool {
        self.resuming.lock().contains_key(id)
    }

    /// Returns whether a message may be the answer to a question above it.
    pub(crate) fn may_answer(&self, channel: u64, message: u64) -> bool {
        let above = |at: &MessageLocation| at.channel == channel && at.message < message;
        self.resuming.lock().values().any(above) || self.locations.lock().values().any(above)
    }

    /// Waits until the turns with open questions in a channel are resumed, at most
    /// [`RESUME_LIMIT`].
    pub(crate) async fn wait_for_resumed(&self, channel: u64) {
        let until = Instant::now() + RESUME_LIMIT;
        while Instant::now() < until
            && self.resuming.lock().values().any(|at| at.channel == channel)
        {
            sleep(RESUME_POLL_INTERVAL).await;
        }
    }

    /// Closes a question that was to stay open.
    pub(crate) async fn close_resuming(&self, api: &Api, id: &str, timeouts: Timeouts) {
        let left = self.resuming.lock().remove(id);
        if let Some(at) = left {
            self.close_one(api, id, at, timeouts).await;
        }
    }

    /// Shows that a question of a previous process is no longer open.
    pub(super) async fn close_one(
        &self,
        api: &Api,
        id: &str,
        at: MessageLocation,
        timeouts: Timeouts,
    ) {
        let MessageLocation { channel, message } = at;
        let content =
            match api.get::<Message>(Endpoint::Message { channel, message }, timeouts).await {
                Ok(found) => layout::stale_text(&found.content, true),
                Err(error) if error.is_gone() => return self.notes.question_closed(id),
                Err(_) => layout::stale_text("", true),
            };
        match api.edit_with(channel, message, &content, &json!([]), timeouts).await {
            Err(error) if !error.is_forbidden() => {
                warn!(question = id, channel, %error, "cannot close a question of an earlier run");
            }
            _ => self.notes.question_closed(id),
        }
    }
}

/// Makes a message of a previous process show a question from its start. Returns `false` if the
/// message does not exist any more.
pub(crate) async fn take_over(
    api: &Api,
    question: &OpenQuestion,
    MessageLocation { channel, message }: MessageLocation,
    timeouts: Timeouts,
) -> Result<bool, RestError> {
    let content = layout::pieces(question, 0).pop().unwrap_or_default();
    match api.get::<Message>(Endpoint::Message { channel, message }, timeouts).await {
        Ok(found) if found.content.trim() == content.trim() => return Ok(true),
        Err(error) if error.is_gone() => return Ok(false),
        // A message that cannot be read may still be editable.
        Err(error) if !error.is_forbidden() => return Err(error),
        _ => {}
    }
    match api.edit_with(channel, message, &content, &layout::rows(question, 0), timeouts).await {
        Err(error) if error.is_gone() => Ok(false),
        edited => edited.map(|()| true),
    }
}
