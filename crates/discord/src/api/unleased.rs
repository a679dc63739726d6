//! Messages that wait neither for other requests nor for the lease of this node, which otherwise
//! is needed to send anything.

use reqwest::Method;
use serde_json::json;

use super::Api;
use crate::rest::{RestError, RestRequest, Timeouts};

impl Api {
    /// Posts a reply, independently of other requests in the channel and even without a lease. The
    /// same nonce never posts twice.
    pub(crate) async fn post_unleased(
        &self,
        channel: u64,
        reply_to: u64,
        nonce: &str,
        content: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let call = RestRequest {
            method: Method::POST,
            path: format!("/channels/{channel}/messages"),
            bucket: None,
            body: Some(json!({
                "content": content, "allowed_mentions": {"parse": []}, "nonce": nonce, "enforce_nonce": true,
                "message_reference": {"message_id": reply_to.to_string(), "fail_if_not_exists": false},
            })),
            by_interaction: false,
        };
        self.rest.unleased().send(&call, timeouts).await.map(drop)
    }
}
