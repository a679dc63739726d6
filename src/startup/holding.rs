//! Whether agents outlive the gateway here: the holder, found or started.

use std::path::Path;

use crate::cli::exit;
use crate::config::{Config, HolderWish};
use crate::lease;
use crate::process::Sandbox;
use crate::process::holder::{HeldLauncher, Holding};
use crate::startup::Refused;
use crate::turn::Launcher as _;

/// Finds or starts a holder, as the operator wishes. Returns `None` if agents end with the gateway,
/// and whether agents of the last gateway may have worked after it ended, with their output lost.
///
/// # Errors
/// [`Refused`]: there is none, and there must be one.
pub(super) async fn take_up(
    config: &Config,
    sandbox: &Sandbox,
) -> Result<(Option<HeldLauncher>, bool), Refused> {
    let state = config.config_dir.join("state");
    if config.agent_holder == HolderWish::Off {
        end_what_is_held(&state, sandbox).await;
        return Ok((None, HeldLauncher::note_no_holder(&state)));
    }
    let holding = Holding { program: None, claim_within: config.agent_hold };
    match HeldLauncher::start_or_connect(&state, sandbox.clone(), holding).await {
        Ok(held) => {
            say(&held.version());
            if config.cluster_url.is_none() && held.fences() {
                // It may have heard of an end from a gateway that was part of a cluster.
                held.until(lease::ENDLESS);
            }
            let is_successor = held.is_successor();
            Ok((Some(held), is_successor))
        }
        Err(error) if config.agent_holder == HolderWish::Require => {
            Err(Refused::because(exit::UNAVAILABLE, format!("AGENT_HOLDER=require: {error}")))
        }
        Err(error) => {
            tracing::warn!(%error, "agents end with the gateway (AGENT_HOLDER=auto)");
            Ok((None, HeldLauncher::note_no_holder(&state)))
        }
    }
}

/// Ends the agents that the last gateway left with a holder.
async fn end_what_is_held(state: &Path, sandbox: &Sandbox) {
    let Ok(held) = HeldLauncher::connect(state, sandbox.clone()).await else { return };
    // A holder whose agents were ended leaves at once.
    held.note_lost_output();
    let survivors = held.survivors().await;
    if !survivors.is_empty() {
        tracing::warn!(
            agents = survivors.len(),
            "agents that outlived the gateway are ended, because AGENT_HOLDER is off now"
        );
    }
    survivors.iter().for_each(|survivor| held.end(&survivor.run));
    held.leave().await;
}

fn say(version: &str) {
    let own = env!("CARGO_PKG_VERSION");
    if version == own {
        tracing::info!("agents outlive the gateway: a holder keeps them");
    } else {
        tracing::warn!(
            holder = version,
            gateway = own,
            "the holder is of another version and goes on serving; restart it when no agent runs"
        );
    }
}
