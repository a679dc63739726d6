//! The kit for policies: commands to check a policy and to try it on recorded requests.
//!
//! Exit codes are those of the kit for backends: 0: success, 1: the trial failed, 64: the trial
//! could not be run.

pub(crate) mod check;
pub(crate) mod replay;
mod report;

use std::path::Path;

use crate::open;
use aetheel::commands::kit::KitError;
use aetheel_wasm::{Engine, LoadedPolicy};

async fn policy(engine: &Engine, path: &Path) -> Result<LoadedPolicy, KitError> {
    LoadedPolicy::open(engine, path).await.map_err(|error| open::refused(path, &error))
}

/// Returns name, version and the beginning of the digest.
fn title(policy: &LoadedPolicy) -> String {
    let about = policy.descriptor();
    let digest = policy.digest().get(..12).unwrap_or_default();
    format!("policy {} {} ({digest})", about.name, about.version)
}
