//! `aetheel cluster import` and `export`: move the pending work of one machine into the cluster,
//! and back.

use crate::cli::exit;
use crate::startup::cluster;
use crate::startup::settings::OperatorSettings;
use crate::terminal::line;
use aetheel_model::plain::counted;

pub(super) async fn import(settings: OperatorSettings) -> u8 {
    match cluster::import(&settings.config).await {
        Ok(node) => {
            line(&format!(
                "the pending work of this machine is in the cluster now; {node} continues it when it is started"
            ));
            exit::OK
        }
        Err(refused) => refused.print(),
    }
}

pub(super) async fn export(settings: OperatorSettings) -> u8 {
    match cluster::export(&settings.config).await {
        Ok(lines) => {
            line(&format!(
                "state/queue.md contains the pending work ({}), and the database contains no more data of the bot; unset CLUSTER_URL, then start the gateway",
                counted(lines, "line")
            ));
            exit::OK
        }
        Err(refused) => refused.print(),
    }
}
