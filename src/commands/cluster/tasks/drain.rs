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

/// Asks the node to hand over its channels, and waits until the last one is handed over unless
/// `no_wait` is set. Returns the exit code.
pub(super) async fn run(settings: OperatorSettings, node: &str, no_wait: bool) -> Result<u8, u8> {
    let url = request(&settings, node, true).await?;
    if no_wait {
        line(&format!("{node} hands its channels over; `aetheel nodes` shows the progress"));
        return Ok(exit::OK);
    }
    let mut reported = None;
    loop {
        match remaining_lanes(url, node).await {
            Ok(Some(0)) => {
                line(&format!("{node} has no channels any more; it can be stopped"));
                return Ok(exit::OK);
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
                return Ok(exit::OK);
            }
            Err(error) => return Err(report_error(&settings, &error)),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Makes a node accept channels again. Returns the exit code.
pub(super) async fn undo(settings: OperatorSettings, node: &str) -> Result<u8, u8> {
    request(&settings, node, false).await?;
    line(&format!("{node} works again: it accepts new channels"));
    Ok(exit::OK)
}

/// Asks the node to hand over its channels, or withdraws that. Returns the URL of the database.
///
/// # Errors
/// The exit code.
async fn request<'s>(
    settings: &'s OperatorSettings,
    node: &str,
    wanted: bool,
) -> Result<&'s str, u8> {
    let url = cluster_url(settings)?.expose_secret();
    match Cluster::request_drain(url, node, wanted).await {
        Ok(true) => Ok(url),
        Ok(false) => {
            print_stderr(&format!(
                "there is no working node {node:?}; `aetheel nodes` lists the nodes"
            ));
            Err(exit::USAGE)
        }
        Err(error) => Err(report_error(settings, &error)),
    }
}

/// Returns the number of lanes that the node still has, or `None` if the node is gone.
async fn remaining_lanes(url: &str, name: &str) -> Result<Option<u64>, ClusterError> {
    let nodes = Cluster::nodes(url).await?;
    let node = nodes.iter().find(|node| node.name == name && node.lease_ms > 0);
    Ok(node.map(|node| if node.is_leader { node.work.lanes.max(1) } else { node.work.lanes }))
}
