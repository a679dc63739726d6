//! Messages that wait neither for other requests nor for the lease of this node, which otherwise
//! is needed to send anything.

use serde_json::Value;

use super::endpoints::Endpoint;
use super::{Api, message_body, reference, set_nonce};
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
        let mut body = message_body(content, &Value::Null);
        set_nonce(&mut body, nonce);
        body["message_reference"] = reference(reply_to);
        let call = Endpoint::Post { channel }.request(Some(body));
        let call = RestRequest { bucket: None, ..call };
        self.rest.unleased().send(&call, timeouts).await.map(drop)
    }
}
