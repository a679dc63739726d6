//! A component that was loaded, and a file that was refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::options;
use super::world::{self, ExtensionWorld};
use crate::engine::Engine;
use crate::error::AdmissionError;
use crate::source;
use aetheel_model::extension::{ExtensionDescriptor, ExtensionKind};

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

impl<E: ExtensionWorld> LoadedExtension<E> {
    /// Admits a file of any folder in the same way as loading does, except for its trust.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not be used.
    pub(super) async fn open(engine: &Engine, path: &Path) -> Result<Self, AdmissionError> {
        let source = source::read(path.to_owned(), engine.limits().component).await?;
        let (options, options_path) = (options::read(path)?, options::path_of(path));
        let (descriptor, extension) =
            world::admit(engine, source.bytes, options, options_path).await?;
        let (path, trust, digest) = (path.to_owned(), None, source.digest);
        Ok(Self { descriptor, digest, path, trust, extension })
    }
}
