//! The responses to an interaction. Discord expects the first one within three seconds.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::endpoints::Endpoint;
use super::foreign_acks::ForeignAcks;
use super::{PostedMessage, message_body, posted, private};
use crate::rest::{Rest, RestError, Timeouts};

/// Discord's error code for an interaction that was acknowledged before.
const ALREADY_ACKNOWLEDGED: u64 = 40_060;

/// Responds to interactions, each of which is given by its id and token.
#[derive(Clone, Debug)]
pub(crate) struct Responses {
    rest: Rest,
    foreign_acks: Arc<ForeignAcks>,
}

impl Responses {
    pub(super) fn new(rest: Rest) -> Self {
        Self { rest, foreign_acks: Arc::default() }
    }

    pub(crate) async fn callback(
        &self,
        interaction: u64,
        token: &str,
        body: Value,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        self.first_callback(interaction, token, body, false, timeouts).await.map(drop)
    }

    /// Responds to an interaction, given by its id and token. Returns `false` if it was acknowledged
    /// before, perhaps by an attempt whose answer was lost. `may_be_answered` means that another node
    /// may have done so.
    pub(crate) async fn first_callback(
        &self,
        interaction: u64,
        token: &str,
        body: Value,
        may_be_answered: bool,
        timeouts: Timeouts,
    ) -> Result<bool, RestError> {
        let call = Endpoint::Callback { interaction, token }.request(Some(body));
        let is_known = |sent: &Result<Value, RestError>| {
            matches!(sent, Err(RestError::Refused { code: ALREADY_ACKNOWLEDGED, .. }))
        };
        // A single attempt, after which no answer of Discord can have been lost.
        let mut sent = self.rest.send(&call, Timeouts { total: Duration::ZERO, ..timeouts }).await;
        if is_known(&sent) && !may_be_answered {
            self.foreign_acks.note();
        }
        if sent.as_ref().is_err_and(RestError::is_temporary) {
            sent = self.rest.send(&call, timeouts).await;
        }
        if is_known(&sent) { Ok(false) } else { sent.map(|_| true) }
    }

    /// Acknowledges an interaction, so that its answer may follow after Discord's three seconds
    /// (callback type 5).
    pub(crate) async fn defer(
        &self,
        interaction: u64,
        token: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let body = json!({"type": 5, "data": {"allowed_mentions": {"parse": []}}});
        self.callback(interaction, token, body, timeouts).await
    }

    /// Answers at once, visible to the user alone (callback type 4, flag 64).
    pub(crate) async fn answer_privately(
        &self,
        interaction: u64,
        token: &str,
        text: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let body = json!({"type": 4, "data": private(message_body(text, &Value::Null))});
        self.callback(interaction, token, body, timeouts).await
    }

    /// Answers at once, visible to everybody (callback type 4).
    pub(crate) async fn answer_at_once(
        &self,
        interaction: u64,
        token: &str,
        text: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let body = json!({"type": 4, "data": message_body(text, &Value::Null)});
        self.callback(interaction, token, body, timeouts).await
    }

    /// Puts text, and menus and buttons unless `components` is null, into the answer.
    pub(crate) async fn edit(
        &self,
        application: u64,
        interaction: u64,
        token: &str,
        content: &str,
        components: &Value,
        timeouts: Timeouts,
    ) -> Result<PostedMessage, RestError> {
        let endpoint = Endpoint::EditOriginal { application, interaction, token };
        let body = message_body(content, components);
        posted(&self.rest.send(&endpoint.request(Some(body)), timeouts).await?)
    }

    /// Posts a further message through the token of an interaction. Such a message has no nonce, so
    /// this is used only in channels in which the bot may not post.
    pub(crate) async fn follow_up(
        &self,
        application: u64,
        interaction: u64,
        token: &str,
        content: &str,
        timeouts: Timeouts,
    ) -> Result<PostedMessage, RestError> {
        let endpoint = Endpoint::FollowUp { application, interaction, token };
        let body = message_body(content, &Value::Null);
        posted(&self.rest.send(&endpoint.request(Some(body)), timeouts).await?)
    }

    /// Sends a message that only the user sees, after an interaction was answered.
    pub(crate) async fn follow_up_privately(
        &self,
        application: u64,
        interaction: u64,
        token: &str,
        text: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let endpoint = Endpoint::FollowUp { application, interaction, token };
        let body = private(message_body(text, &Value::Null));
        self.rest.send(&endpoint.request(Some(body)), timeouts).await.map(drop)
    }
}
