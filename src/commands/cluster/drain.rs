//! `aetheel drain NODE`: makes a node hand its channels over to the other nodes.

use std::time::Duration;

use secrecy::ExposeSecret as _;

use super::{cluster_url, report_error};
use crate::cli::exit;
use crate::startup::settings::OperatorSettings;
use crate::terminal::{line, print_stderr};
use aetheel_cluster::{Cluster, ClusterError};
use aetheel_model::plain::counted;

/// Interval between two checks of the progress.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(in crate::commands) struct DrainOptions {
    pub node: String,
    /// Whether the node is to accept channels again.
    pub undo: bool,
    /// Whether to return without waiting for the node to hand over its channels.
    pub no_wait: bool,
}

/// Asks the node to hand over its channels, and waits until the last one is handed over. Returns
/// the exit code.
pub(in crate::commands) async fn run(settings: OperatorSettings, wish: DrainOptions) -> u8 {
    let url = match cluster_url(&settings) {
        Ok(url) => url.expose_secret(),
        Err(code) => return code,
    };
    let node = &wish.node;
    match Cluster::request_drain(url, node, !wish.undo).await {
        Ok(true) => {}
        Ok(false) => {
            print_stderr(&format!(
                "there is no working node {node:?}; `aetheel nodes` lists the nodes"
            ));
            return exit::USAGE;
        }
        Err(error) => return report_error(&settings, &error),
    }
    if wish.undo {
        line(&format!("{node} works again: it accepts new channels"));
        return exit::OK;
    }
    if wish.no_wait {
        line(&format!("{node} hands its channels over; `aetheel nodes` shows the progress"));
        return exit::OK;
    }
    let mut reported = None;
    loop {
        match remaining_lanes(url, node).await {
            Ok(Some(0)) => {
                line(&format!("{node} has no channels any more; it can be stopped"));
                return exit::OK;
            }
            Ok(Some(lanes)) if reported != Some(lanes) => {
                print_stderr(&format!(
                    "{node} still has {} with running turns or waiting messages",
                    counted(lanes, "channel")
                ));
                reported = Some(lanes);
            }
            // The database may be unavailable for a while.
            Ok(Some(_)) | Err(ClusterError::Away(_)) => {}
            Ok(None) => {
                print_stderr(&format!("{node} is gone; other nodes take over its channels"));
                return exit::OK;
            }
            Err(error) => return report_error(&settings, &error),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the number of lanes that the node still has, or `None` if the node is gone.
async fn remaining_lanes(url: &str, name: &str) -> Result<Option<u64>, ClusterError> {
    let nodes = Cluster::nodes(url).await?;
    let node = nodes.iter().find(|node| node.name == name && node.lease_ms > 0);
    Ok(node.map(|node| if node.is_leader { node.lanes.max(1) } else { node.lanes }))
}
