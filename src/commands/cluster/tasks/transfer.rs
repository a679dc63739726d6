//! `aetheel cluster import` and `export`: move the pending work of one machine into the cluster,
//! and back.

use crate::cli::exit;
use crate::startup::cluster;
use crate::startup::settings::OperatorSettings;
use crate::terminal::line;
use aetheel_model::plain::counted;

pub(super) async fn import(settings: OperatorSettings) -> Result<u8, u8> {
    let node = cluster::import(&settings.config).await.map_err(|refused| refused.print())?;
    line(&format!(
        "the pending work of this machine is in the cluster now; {node} continues it when it is started"
    ));
    Ok(exit::OK)
}

pub(super) async fn export(settings: OperatorSettings) -> Result<u8, u8> {
    let lines = cluster::export(&settings.config).await.map_err(|refused| refused.print())?;
    line(&format!(
        "state/queue.md contains the pending work ({}), and the database contains no more data of the bot; unset CLUSTER_URL, then start the gateway",
        counted(lines, "line")
    ));
    Ok(exit::OK)
}
