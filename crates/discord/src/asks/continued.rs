//! Questions of a previous process. A question whose turn continues keeps its message; all others
//! are closed.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{Asks, At, look};
use crate::api::Api;
use crate::rest::{RestError, Timeouts};
use aetheel_dispatch::OpenQuestion;

/// How long a written answer waits until its turn is resumed, and how often that is checked.
const BACK_LIMIT: Duration = Duration::from_secs(10);
const BACK_LOOK: Duration = Duration::from_millis(20);
/// The private reply to a press before the turn is resumed.
pub(super) const COMING_BACK: &str = "I have just restarted. Please try again in a few seconds.";

impl Asks {
    /// Keeps these questions of a previous process open, because their turns continue.
    pub(crate) fn go_on_with(&self, ids: &[String]) {
        let left = self.notes.take_left_open(|id| ids.iter().any(|wanted| wanted == id));
        let left = left.into_iter().map(|(id, channel, message)| (id, At { channel, message }));
        self.continuing.lock().extend(left);
    }

    /// Returns whether the turn of a question is still being resumed.
    pub(super) fn is_coming_back(&self, id: &str) -> bool {
        self.continuing.lock().contains_key(id)
    }

    /// Returns whether a message may be the answer to a question above it.
    pub(crate) fn may_answer(&self, channel: u64, message: u64) -> bool {
        let above = |at: &At| at.channel == channel && at.message < message;
        self.continuing.lock().values().any(above) || self.places.lock().values().any(above)
    }

    /// Waits until the turns with open questions in a channel are resumed, at most [`BACK_LIMIT`].
    pub(crate) async fn back_in(&self, channel: u64) {
        let until = Instant::now() + BACK_LIMIT;
        while Instant::now() < until
            && self.continuing.lock().values().any(|at| at.channel == channel)
        {
            sleep(BACK_LOOK).await;
        }
    }

    /// Closes a question that was to stay open.
    pub(crate) async fn give_up(&self, api: &Api, id: &str, timeouts: Timeouts) {
        let left = self.continuing.lock().remove(id);
        if let Some(at) = left {
            self.close_one(api, id, at, timeouts).await;
        }
    }

    /// Shows that a question of a previous process is no longer open.
    pub(super) async fn close_one(&self, api: &Api, id: &str, at: At, timeouts: Timeouts) {
        let At { channel, message } = at;
        let content = match api.message(channel, message, timeouts).await {
            Ok(found) => look::stale(&found.content, true),
            Err(error) if error.is_gone() => return self.notes.closed(id),
            Err(_) => look::stale("", true),
        };
        match api.edit_with(channel, message, &content, &json!([]), timeouts).await {
            Err(error) if !error.is_forbidden() => {
                warn!(question = id, channel, %error, "cannot close a question of an earlier run");
            }
            _ => self.notes.closed(id),
        }
    }
}

/// Makes a message of a previous process show a question from its start. Returns `false` if the
/// message does not exist any more.
pub(super) async fn take_over(
    api: &Api,
    question: &OpenQuestion,
    At { channel, message }: At,
    timeouts: Timeouts,
) -> Result<bool, RestError> {
    let content = look::pieces(question, 0).pop().unwrap_or_default();
    match api.message(channel, message, timeouts).await {
        Ok(found) if found.content.trim() == content.trim() => return Ok(true),
        Err(error) if error.is_gone() => return Ok(false),
        // A message that cannot be read may still be editable.
        Err(error) if !error.is_forbidden() => return Err(error),
        _ => {}
    }
    match api.edit_with(channel, message, &content, &look::rows(question, 0), timeouts).await {
        Err(error) if error.is_gone() => Ok(false),
        edited => edited.map(|()| true),
    }
}
