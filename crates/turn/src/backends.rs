//! The port to all backends by name, and to the versions of each. The folder of components implements
//! it; in tests, lists of scripted backends do.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use aetheel_model::id::ChannelId;
use aetheel_recording::{Backend, Generation, RolloutPair};

/// The reason why another version of a backend is not opened or restored. The texts are for owners.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// No backend has this name.
    #[error("there is no backend `{0}`")]
    NoBackend(String),
    /// The backend of this name never had the version.
    #[error("there is no such version of `{0}`")]
    NoSuchVersion(String),
    /// The backend of this name never had another version.
    #[error("`{0}` has no earlier version to return to")]
    NoEarlier(String),
    /// Another version than the one to replace serves.
    #[error(
        "{} serves `{name}` by now; nothing was changed",
        serves.as_ref().map_or("nothing".to_owned(), |serves| format!("version {serves}"))
    )]
    Superseded {
        /// The name of the backend.
        name: String,
        /// The generation that serves, if any.
        serves: Option<Generation>,
    },
    /// The components are no longer served.
    #[error("the gateway is shutting down")]
    ShuttingDown,
    /// The component cannot be used or put in its place.
    #[error(transparent)]
    Component(Box<dyn std::error::Error + Send + Sync>),
}

/// Access to backends by name.
#[async_trait]
pub trait Backends: Send + Sync {
    /// Returns the current generation of a backend. A turn asks once, at its start.
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>>;
    /// Returns the generation of a backend whose component has this digest, even an earlier one, or
    /// `None` if no such component may be used.
    async fn by_digest(&self, name: &str, digest: &str) -> Option<Arc<dyn Backend>> {
        self.get(name).filter(|backend| backend.generation().digest == digest)
    }
    /// Returns the names of all backends, sorted.
    fn names(&self) -> Vec<String>;
    /// Returns the names of the backends that can work on this machine, as far as is known.
    fn offered(&self) -> Vec<String> {
        self.names()
    }
    /// Returns the backends of one agent's accounts between which conversations change at a usage
    /// limit, including this one. The list is empty if the operator does not want that.
    fn rotation(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
    /// Returns why a backend cannot work on this machine now, in a few words for people, for
    /// example `it is not signed in`. Returns `None` if no problem is known.
    async fn unavailable(&self, _name: &str) -> Option<String> {
        None
    }
    /// Returns the capabilities of a backend that wait for the operator's approval, one line each.
    fn unaccepted(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
    /// Returns whether a component of a backend that served earlier is kept, besides those that
    /// serve, wait or are on rollout.
    async fn has_earlier(&self, _name: &str) -> bool {
        false
    }
    /// Returns the serving version of a backend's component and its new version on rollout, or
    /// `None` if none is on rollout.
    fn rollout(&self, _name: &str) -> Option<RolloutPair> {
        None
    }
    /// Returns the new version of a backend on rollout, ready to serve some lanes before it is
    /// promoted. Its failures do not count for the version that serves.
    fn successor(&self, _name: &str) -> Option<Arc<dyn Backend>> {
        None
    }
    /// Returns the version in development of a backend that serves only this channel, if there is
    /// one.
    fn live(&self, _name: &str, _channel: ChannelId) -> Option<Arc<dyn Backend>> {
        None
    }
    /// Returns the digest of the component that serves a backend. The digest of the backend's
    /// generation may cover more.
    fn component_digest(&self, name: &str) -> Option<String> {
        Some(self.get(name)?.generation().digest.clone())
    }
    /// Makes the new version with this digest serve, and returns its generation.
    ///
    /// # Errors
    /// [`VersionError`] if it is not on rollout, or cannot be stored. Nothing was changed then.
    async fn promote(&self, name: &str, _digest: &str) -> Result<Generation, VersionError> {
        Err(VersionError::NoSuchVersion(name.to_owned()))
    }
    /// Drops the new version with this digest, and returns the path to which its file was moved.
    ///
    /// # Errors
    /// [`VersionError`] if it is not on rollout, or the folder cannot be written. Nothing was
    /// changed then.
    async fn withdraw(&self, name: &str, _digest: &str) -> Result<PathBuf, VersionError> {
        Err(VersionError::NoSuchVersion(name.to_owned()))
    }
    /// Replaces the generation `from` by the component that served before it, and returns the
    /// generation that serves then.
    ///
    /// # Errors
    /// [`VersionError`] if there is no earlier component, if another generation serves by now, or
    /// if the folder cannot be written. Nothing was changed then.
    async fn roll_back(&self, name: &str, _from: &Generation) -> Result<Generation, VersionError> {
        Err(VersionError::NoEarlier(name.to_owned()))
    }
}
