//! The options of a registry.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::trust::Gate;
use aetheel_store::workspace::Components;

/// Where components come from.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The folder of `*.wasm` files. It may be missing and appear later.
    pub directory: PathBuf,
    /// How long a file must not change before it is loaded; a quarter of it when its writer closed
    /// or renamed it.
    pub quiet: Duration,
    /// How often everything is looked at, whatever the watch says.
    pub rescan: Duration,
    /// The operator's trust settings.
    pub gate: Gate,
    /// Where components that served are kept; none: nothing can be rolled back.
    pub components: Option<Components>,
    /// Where the components are that came with the program, to be tried; none: it came with none.
    pub shipped: Option<PathBuf>,
}

impl RegistryOptions {
    /// The usual times, 200 ms and 30 s; everything may serve, nothing is kept.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            quiet: Duration::from_millis(200),
            rescan: Duration::from_secs(30),
            gate: Gate::open(),
            components: None,
            shipped: None,
        }
    }
}
