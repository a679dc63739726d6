//! The first response to an interaction, which Discord expects within three seconds.

use reqwest::Method;
use serde_json::{Value, json};

use super::Api;
use crate::rest::{ALREADY_ACKNOWLEDGED, RestError, RestRequest, Timeouts};

impl Api {
    /// Responds to an interaction.
    pub(crate) async fn callback(
        &self,
        interaction: u64,
        token: &str,
        body: Value,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        self.first_callback(interaction, token, body, timeouts).await.map(drop)
    }

    /// Responds to an interaction. Returns `false` if it was acknowledged before, perhaps by an
    /// attempt whose answer was lost.
    pub(crate) async fn first_callback(
        &self,
        interaction: u64,
        token: &str,
        body: Value,
        timeouts: Timeouts,
    ) -> Result<bool, RestError> {
        let call = RestRequest {
            method: Method::POST,
            path: format!("/interactions/{interaction}/{token}/callback"),
            bucket: None,
            body: Some(body),
            by_interaction: true,
        };
        match self.rest.send(&call, timeouts).await {
            Err(RestError::Refused { code: ALREADY_ACKNOWLEDGED, .. }) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Acknowledges an interaction, so that its answer may follow after Discord's three seconds
    /// (callback type 5).
    pub(crate) async fn defer(
        &self,
        interaction: u64,
        token: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        self.callback(
            interaction,
            token,
            json!({"type": 5, "data": {"allowed_mentions": {"parse": []}}}),
            timeouts,
        )
        .await
    }

    /// Answers at once, visible to the user alone (callback type 4, flag 64).
    pub(crate) async fn answer_privately(
        &self,
        interaction: u64,
        token: &str,
        text: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let body = json!({"type": 4, "data": {"content": text, "flags": 64, "allowed_mentions": {"parse": []}}});
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
        let body = json!({"type": 4, "data": {"content": text, "allowed_mentions": {"parse": []}}});
        self.callback(interaction, token, body, timeouts).await
    }
}
