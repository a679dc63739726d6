//! Connects to the holder, or starts one. The holder is a process that keeps agents running while
//! the gateway restarts.

use std::path::Path;

use crate::cli::exit;
use crate::startup::StartRefusal;
use aetheel_process::Sandbox;
use aetheel_process::holder::{HeldLauncher, HolderStart};
use aetheel_runtime::lease;
use aetheel_settings::{Config, HolderMode};
use aetheel_turn::Launcher as _;

/// Connects to a holder or starts one, as `AGENT_HOLDER` requires. Returns `None` if agents end
/// with the gateway. The second value is whether agents of the previous gateway may have worked
/// after it ended, so that their output is lost.
///
/// # Errors
/// Returns [`StartRefusal`] if the operator requires a holder and it cannot be used.
pub(super) async fn start_or_connect(
    config: &Config,
    sandbox: &Sandbox,
) -> Result<(Option<HeldLauncher>, bool), StartRefusal> {
    let state = config.config_dir.join("state");
    if config.agent_holder == HolderMode::Off {
        end_held_agents(&state, sandbox).await;
        return Ok((None, HeldLauncher::note_no_holder(&state)));
    }
    let holding = HolderStart { program: None, claim_within: config.agent_hold };
    match HeldLauncher::start_or_connect(&state, sandbox.clone(), holding).await {
        Ok(held) => {
            log_version(&held.version());
            if config.cluster_url.is_none() && held.fences() {
                // A previous gateway may have been part of a cluster and set a time limit.
                held.set_deadline(lease::ENDLESS);
            }
            let is_successor = held.is_successor();
            Ok((Some(held), is_successor))
        }
        Err(error) if config.agent_holder == HolderMode::Require => {
            Err(StartRefusal::because(exit::UNAVAILABLE, format!("AGENT_HOLDER=require: {error}")))
        }
        Err(error) => {
            tracing::warn!(%error, "agents end with the gateway (AGENT_HOLDER=auto)");
            Ok((None, HeldLauncher::note_no_holder(&state)))
        }
    }
}

/// Ends the agents that the previous gateway left with a holder.
async fn end_held_agents(state: &Path, sandbox: &Sandbox) {
    let Ok(held) = HeldLauncher::connect(state, sandbox.clone()).await else { return };
    // A holder without agents ends at once, so this must come first.
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

fn log_version(version: &str) {
    let own = env!("CARGO_PKG_VERSION");
    if version == own {
        tracing::info!("agents outlive the gateway: a holder keeps them");
    } else {
        tracing::warn!(
            holder = version,
            gateway = own,
            "the holder is of another version and still works; restart it when no agent runs"
        );
    }
}
