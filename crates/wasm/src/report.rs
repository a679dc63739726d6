//! The loader's reports on the files it looks at.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::error::AdmissionError;
use aetheel_turn::Generation;

/// The result of one look at one file.
#[derive(Clone, Debug)]
pub enum LoadReport {
    /// Its component serves from now on.
    Loaded {
        /// The name of the backend it serves as.
        name: String,
        /// The generation that now answers new turns.
        generation: Generation,
        /// The file it was loaded from.
        path: PathBuf,
        /// From the decision to load until it served.
        took: Duration,
    },
    /// It does not; what served before still does.
    Refused {
        /// The file that was refused.
        path: PathBuf,
        /// The reason, with a hint for the operator.
        reason: Arc<AdmissionError>,
    },
    /// It was touched, but has the content that already serves.
    Unchanged {
        /// The name of the backend whose component it is.
        name: String,
        /// The file that was touched.
        path: PathBuf,
    },
    /// It could serve, but another file of its name does.
    StandsBy {
        /// The name both components have.
        name: String,
        /// The file that stands by.
        path: PathBuf,
    },
    /// It is gone; its last generation still serves, unless another file of its name takes over.
    Vanished {
        /// The name of the backend whose component is gone.
        name: String,
        /// Where the file was.
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
