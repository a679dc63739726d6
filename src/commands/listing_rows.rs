//! Parts of a row of `aetheel backend list`.

use std::path::PathBuf;

use serde::Serialize;

use aetheel_recording::RolloutPair;
use aetheel_store::workspace::RolloutNote;

/// The entry of a backend in `backends.lock.md`.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RegistryRow {
    pub(super) reference: String,
    /// The digest of the cases that came with it.
    pub(super) cases: Option<String>,
    /// The versions of the agent that made these cases, each with the number of cases.
    pub(super) proven_with: Option<String>,
}

/// A new version of a backend that does not serve yet.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RolloutRow {
    version: String,
    digest: String,
    /// `running`, or `stopped` by a harmful difference.
    state: &'static str,
    compared: u64,
    skipped: u64,
    different: u64,
    served: u64,
}

impl RolloutRow {
    pub(super) fn new(pair: &RolloutPair, note: &RolloutNote) -> Self {
        Self {
            version: pair.successor.descriptor().version.clone(),
            digest: note.digest.clone(),
            state: note.state.word(),
            compared: note.compared,
            skipped: note.skipped,
            different: note.different,
            served: note.served,
        }
    }

    pub(super) fn text(&self) -> String {
        let Self { version, state, compared, skipped, different, served, .. } = self;
        let digest = self.digest.get(..12).unwrap_or(&self.digest);
        format!(
            "version {version} ({digest}), {state}: {compared} turns compared, {skipped} skipped, {different} different, {served} served"
        )
    }
}

/// A component of a backend that could serve, but was not selected.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Rival {
    pub(super) file: PathBuf,
    pub(super) version: String,
    pub(super) understands: Vec<String>,
}
