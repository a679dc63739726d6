//! The servers that the bot is in.

use serde_json::Value;
use tracing::{debug, warn};

use super::checkup;
use crate::api::Api;
use crate::api::endpoints::Endpoint;
use crate::rest::Timeouts;

/// Warns if the bot is in no server, because the operator has not opened the link that invites it.
pub(crate) async fn warn_without_any(api: &Api, application: u64, timeouts: Timeouts) {
    match api.get::<Vec<Value>>(Endpoint::Guilds {}, timeouts).await {
        Ok(servers) if servers.is_empty() => {
            let invite = checkup::invite_url(application);
            warn!(invite, "the bot is in no server; open this link to invite it");
        }
        Ok(_) => {}
        Err(error) => debug!(%error, "cannot ask discord which servers the bot is in"),
    }
}
