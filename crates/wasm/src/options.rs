//! The options of a registry.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::trust::TrustGate;
use aetheel_model::rollout::Rollout;
use aetheel_store::workspace::Components;

/// The options of a registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The folder of `*.wasm` files. It may be created later.
    pub directory: PathBuf,
    /// How long a file must not change before it is loaded. An eighth of it suffices if the writer
    /// closed or renamed the file.
    pub quiet: Duration,
    /// Interval at which all files are checked, in addition to the watch.
    pub rescan: Duration,
    /// The operator's trust settings.
    pub gate: TrustGate,
    /// The store of components that served, or `None` to disable rollbacks.
    pub components: Option<Components>,
    /// How a new version replaces the one that serves.
    pub rollout: Rollout,
}

impl RegistryOptions {
    /// Returns the default options: 200 ms and 30 s, all components may serve, and none is kept.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            quiet: Duration::from_millis(200),
            rescan: Duration::from_secs(30),
            gate: TrustGate::open(),
            components: None,
            rollout: Rollout::Now,
        }
    }
}
