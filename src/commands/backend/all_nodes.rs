//! `aetheel backend install --all-nodes`: the other machines of the cluster get what was installed
//! here, and each takes it by its own rules.

use std::path::Path;

use secrecy::ExposeSecret as _;

use crate::cli::exit;
use crate::cluster::{Cluster, ClusterError, Component};
use crate::config::Config;
use crate::discord::bot_of;
use crate::startup::{clustering, is_component_name};
use crate::workspace::Served;

/// The way to the other machines.
pub(super) struct AllNodes {
    url: secrecy::SecretString,
    bot: u64,
    from: String,
}

impl AllNodes {
    /// # Errors
    /// What is not set.
    pub(super) fn of(config: &Config) -> Result<Self, String> {
        let Some(url) = config.cluster_url.clone() else {
            return Err("--all-nodes: CLUSTER_URL is not set: this machine serves alone (docs/cluster.md); install it without".to_owned());
        };
        let token = config.discord_bot_token.as_ref();
        let Some(bot) = token.and_then(|token| bot_of(token.expose_secret())) else {
            return Err("--all-nodes: DISCORD_BOT_TOKEN is not set, or does not say which bot it is of: it tells whose machines get the component".to_owned());
        };
        Ok(Self { url, bot, from: clustering::node_name(config) })
    }

    /// Hands on what was installed under a path. Returns what to tell.
    ///
    /// # Errors
    /// The exit code and why; it is installed here all the same.
    pub(super) async fn hand_on(&self, to: &Path, served: Served) -> Result<String, (u8, String)> {
        let name = to.file_name().and_then(|name| name.to_str());
        let Some(file) = name.filter(|name| is_component_name(name)) else {
            let why = format!("{} has no name that other machines take; rename it", to.display());
            return Err((exit::USAGE, why));
        };
        let component = Component {
            file: file.to_owned(),
            digest: served.digest,
            bytes: served.bytes.to_vec(),
            signature: served.signature,
            from: self.from.clone(),
        };
        let handed = Cluster::hand_out(self.url.expose_secret(), self.bot, &component).await;
        handed.map_err(|error| {
            let code = match error {
                ClusterError::Away(_) | ClusterError::Fenced => exit::TEMPORARY,
                ClusterError::Refused(_) => exit::UNAVAILABLE,
                ClusterError::Untrusted(_) => exit::CONFIG,
            };
            (code, error.to_string())
        })?;
        Ok("handed to all machines: each takes it within seconds, by its own rules; `aetheel nodes` names those whose components differ\n".to_owned())
    }
}
