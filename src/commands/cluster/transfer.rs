//! `aetheel cluster import` and `export`: between one machine and several.

use crate::cli::exit;
use crate::startup::clustering;
use crate::startup::settings::Settings;
use crate::terminal::line;

pub(in crate::commands) async fn import(settings: Settings) -> u8 {
    match clustering::import(&settings.config).await {
        Ok(node) => {
            line(&format!(
                "the cluster has what this machine had left to do; {node} goes on with it when it is started"
            ));
            exit::OK
        }
        Err(refused) => refused.print(),
    }
}

pub(in crate::commands) async fn export(settings: Settings) -> u8 {
    match clustering::export(&settings.config).await {
        Ok(lines) => {
            line(&format!(
                "state/queue.md has what is left to do ({lines} lines), and the database has nothing of the bot any more; unset CLUSTER_URL, and start"
            ));
            exit::OK
        }
        Err(refused) => refused.print(),
    }
}
