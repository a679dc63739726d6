//! A component that was loaded, and a file that was refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::error::AdmissionError;
use aetheel_model::extension::{ExtensionDescriptor, ExtensionKind};

/// A component that is in use.
pub(super) struct LoadedExtension<E> {
    pub(super) descriptor: ExtensionDescriptor,
    /// The SHA-256 of its file, in lower-case hex.
    pub(super) digest: String,
    pub(super) path: PathBuf,
    /// The reason why it is trusted, for people.
    pub(super) trust: Option<String>,
    pub(super) extension: E,
}

/// The components in use by name. Only the loader replaces them. Readers never wait.
pub(super) type CurrentExtensions<E> = ArcSwap<BTreeMap<String, Arc<LoadedExtension<E>>>>;

/// A component that is in use, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionInfo {
    /// Its kind.
    pub kind: ExtensionKind,
    /// Its description of itself.
    pub descriptor: ExtensionDescriptor,
    /// The SHA-256 of its file, in lower-case hex.
    pub digest: String,
    /// The file that it was loaded from.
    pub path: PathBuf,
    /// The reason why it is trusted, or `None` if trust is not checked.
    pub trust: Option<String>,
}

/// A file that is not used.
#[derive(Clone, Debug)]
pub struct ExtensionRefusal {
    /// The path of the file.
    pub path: PathBuf,
    /// The reason, which has a hint for the operator.
    pub reason: Arc<AdmissionError>,
}

impl<E> LoadedExtension<E> {
    pub(super) fn info(&self, kind: ExtensionKind) -> ExtensionInfo {
        ExtensionInfo {
            kind,
            descriptor: self.descriptor.clone(),
            digest: self.digest.clone(),
            path: self.path.clone(),
            trust: self.trust.clone(),
        }
    }
}
