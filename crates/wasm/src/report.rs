//! The loader's reports on the files it checks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::AdmissionError;
use aetheel_recording::Generation;

/// The result of checking one file.
#[derive(Clone, Debug)]
pub enum LoadReport {
    /// Its component serves from now on.
    Loaded {
        /// The name of the backend.
        name: String,
        /// The generation that serves new turns.
        generation: Generation,
        /// The file that it was loaded from.
        path: PathBuf,
        /// The time from the decision to load until it served.
        took: Duration,
    },
    /// The file was refused. The component that served before still serves.
    Refused {
        /// The file that was refused.
        path: PathBuf,
        /// The reason, which has a hint for the operator.
        reason: Arc<AdmissionError>,
    },
    /// The file was touched, but has the content that already serves.
    Unchanged {
        /// The name of the backend.
        name: String,
        /// The file that was touched.
        path: PathBuf,
    },
    /// The component could serve, but another file of its name does.
    Standby {
        /// The name of both backends.
        name: String,
        /// The file that does not serve.
        path: PathBuf,
    },
    /// Its component waits until it is promoted, and another one serves until then.
    OnRollout {
        /// The name of the backend.
        name: String,
        /// The file of the component that waits.
        path: PathBuf,
    },
    /// The file is gone. Its last generation still serves, unless another file of its name takes
    /// over.
    Vanished {
        /// The name of the backend.
        name: String,
        /// The path of the file.
        path: PathBuf,
    },
}

impl LoadReport {
    /// Returns the report on a component that serves. `start` is when it was decided to load it.
    pub(super) fn loaded(
        name: &str,
        generation: Generation,
        path: PathBuf,
        start: Instant,
    ) -> Self {
        Self::Loaded { name: name.to_owned(), generation, path, took: start.elapsed() }
    }

    /// Returns the name of the backend, which is empty for a refused file.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Loaded { name, .. }
            | Self::Unchanged { name, .. }
            | Self::Vanished { name, .. }
            | Self::OnRollout { name, .. }
            | Self::Standby { name, .. } => name,
            Self::Refused { .. } => "",
        }
    }

    pub(super) fn metric_label(&self) -> &'static str {
        match self {
            Self::Loaded { .. } => "loaded",
            Self::Refused { .. } => "refused",
            Self::Unchanged { .. } => "unchanged",
            Self::Vanished { .. } => "vanished",
            Self::Standby { .. } => "stands-by",
            Self::OnRollout { .. } => "on-rollout",
        }
    }
}
