//! What the loader reports of the files it looks at.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::error::AdmissionError;
use crate::turn::Generation;

/// What became of one look at one file.
#[derive(Clone, Debug)]
pub enum LoadReport {
    /// It serves.
    Loaded {
        /// The backend's name.
        name: String,
        /// The generation that now answers new turns.
        generation: Generation,
        /// The file.
        path: PathBuf,
        /// From the decision to load until it served.
        took: Duration,
    },
    /// It does not; what served before still does.
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: Arc<AdmissionError>,
    },
    /// It was touched, but has the content that already serves.
    Unchanged {
        /// The backend's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// It could serve, but another file of its name does.
    StandsBy {
        /// The backend's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// It is gone; its last generation still serves, unless another file of its name takes over.
    Vanished {
        /// The backend's name.
        name: String,
        /// Where it was.
        path: PathBuf,
    },
}

impl LoadReport {
    /// Name of the backend; empty for a refused file, which may be anybody's.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Loaded { name, .. }
            | Self::Unchanged { name, .. }
            | Self::Vanished { name, .. }
            | Self::StandsBy { name, .. } => name,
            Self::Refused { .. } => "",
        }
    }

    /// The word for it in the metrics.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Loaded { .. } => "loaded",
            Self::Refused { .. } => "refused",
            Self::Unchanged { .. } => "unchanged",
            Self::Vanished { .. } => "vanished",
            Self::StandsBy { .. } => "stands-by",
        }
    }
}
