//! The first response to an interaction, which Discord expects within three seconds.

use reqwest::Method;
use serde_json::Value;

use super::Api;
use crate::rest::{RestError, RestRequest, Timeouts};

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
            Err(RestError::Refused { code: 40060, .. }) => Ok(false),
            other => other.map(|_| true),
        }
    }
}
