//! `aetheel backend install --all-nodes`: sends the installed component to the other nodes of the
//! cluster. Each node decides by its own settings whether to load it.

use std::path::Path;

use secrecy::ExposeSecret as _;

use super::open::KitError;
use crate::cli::exit;
use crate::cluster::{Cluster, ClusterError, Component};
use crate::discord::bot_id_of;
use crate::startup::{clustering, is_component_name};
use crate::workspace::ServedComponent;
use aetheel_settings::Config;

/// The reason why components cannot be distributed with these settings.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotInCluster {
    #[error(
        "--all-nodes: CLUSTER_URL is not set, so there are no other machines (docs/cluster.md); install without --all-nodes"
    )]
    NoDatabase,
    #[error(
        "--all-nodes: DISCORD_BOT_TOKEN is not set or invalid; the id of the bot in it selects the machines that get the backend"
    )]
    NoBot,
}

/// Distributes components through the cluster's database.
pub(super) struct ClusterInstaller {
    url: secrecy::SecretString,
    bot: u64,
    from: String,
}

impl ClusterInstaller {
    /// # Errors
    /// Returns the setting that is missing or invalid.
    pub(super) fn from_config(config: &Config) -> Result<Self, NotInCluster> {
        let Some(url) = config.cluster_url.clone() else {
            return Err(NotInCluster::NoDatabase);
        };
        let token = config.discord_bot_token.as_ref();
        let Some(bot) = token.and_then(|token| bot_id_of(token.expose_secret())) else {
            return Err(NotInCluster::NoBot);
        };
        Ok(Self { url, bot, from: clustering::node_name(config) })
    }

    /// Sends the component that was installed at a path to the other nodes. Returns a message for
    /// the operator.
    ///
    /// # Errors
    /// [`KitError`]. The component stays installed on this machine.
    pub(super) async fn distribute(
        &self,
        to: &Path,
        served: ServedComponent,
    ) -> Result<String, KitError> {
        let name = to.file_name().and_then(|name| name.to_str());
        let Some(file) = name.filter(|name| is_component_name(name)) else {
            return Err(KitError::usage(format!(
                "other machines do not accept the file name of {}; rename it",
                to.display()
            )));
        };
        let component = Component {
            file: file.to_owned(),
            digest: served.digest,
            bytes: served.bytes.to_vec(),
            signature: served.signature,
            from: self.from.clone(),
        };
        let handed =
            Cluster::publish_component(self.url.expose_secret(), self.bot, &component).await;
        handed.map_err(|error| {
            let code = match error {
                ClusterError::Away(_) | ClusterError::Fenced => exit::TEMPORARY,
                ClusterError::Refused(_) => exit::UNAVAILABLE,
                ClusterError::Untrusted(_) => exit::CONFIG,
            };
            KitError { code, text: error.to_string(), hint: None }
        })?;
        Ok("sent to all machines: each loads it within seconds, if its own rules allow it; `aetheel nodes` shows machines whose backends differ\n".to_owned())
    }
}
