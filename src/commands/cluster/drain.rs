//! `aetheel drain NODE`: has a machine give its channels to the others.

use std::time::Duration;

use secrecy::ExposeSecret as _;

use super::{refuse, url};
use crate::cli::exit;
use crate::cluster::{Cluster, ClusterError};
use crate::startup::settings::Settings;
use crate::terminal::{line, say};

/// Between two looks at how far it is.
const LOOK: Duration = Duration::from_secs(1);

/// What the operator wants.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Wish {
    pub node: String,
    /// It is to work again.
    pub undo: bool,
    /// Says it and leaves.
    pub no_wait: bool,
}

/// Returns once the node has no channels any more.
pub(in crate::commands) async fn run(settings: Settings, wish: Wish) -> u8 {
    let url = match url(&settings) {
        Ok(url) => url.expose_secret(),
        Err(code) => return code,
    };
    let node = &wish.node;
    match Cluster::want_drain(url, node, !wish.undo).await {
        Ok(true) => {}
        Ok(false) => {
            say(&format!("there is no node {node:?} that works; `aetheel nodes` names them"));
            return exit::USAGE;
        }
        Err(error) => return refuse(&settings, &error),
    }
    if wish.undo {
        line(&format!("{node} works again: it takes new channels"));
        return exit::OK;
    }
    if wish.no_wait {
        line(&format!("{node} gives its channels away; `aetheel nodes` says how far it is"));
        return exit::OK;
    }
    let mut told = None;
    loop {
        match left(url, node).await {
            Ok(Some(0)) => {
                line(&format!("{node} has no channels any more; it can be stopped"));
                return exit::OK;
            }
            Ok(Some(lanes)) if told != Some(lanes) => {
                say(&format!("{node} has {lanes} channels yet, where turns run or people wait"));
                told = Some(lanes);
            }
            // The database may be away for a while.
            Ok(Some(_)) | Err(ClusterError::Away(_)) => {}
            Ok(None) => {
                say(&format!("{node} is gone; others take over what it had"));
                return exit::OK;
            }
            Err(error) => return refuse(&settings, &error),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How many lanes the node has yet; none: it is gone.
async fn left(url: &str, name: &str) -> Result<Option<u64>, ClusterError> {
    let nodes = Cluster::nodes(url).await?;
    let node = nodes.iter().find(|node| node.name == name && node.lease_ms > 0);
    Ok(node.map(|node| if node.seat { node.lanes.max(1) } else { node.lanes }))
}
