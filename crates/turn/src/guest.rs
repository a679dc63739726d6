//! The port to backends and their guests. WASM components implement it; in tests, scripted backends
//! do.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use aetheel_model::agent::{Action, Descriptor, TimedInput};
use aetheel_model::id::ChannelId;

/// Identifies one load of a backend. A turn keeps the generation that it started with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    /// The number of the load of this backend, from 1.
    pub number: u32,
    /// SHA-256 of the component in lower-case hex. For a launch profile, the digest also covers the
    /// profile's settings.
    pub digest: String,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.number, self.digest.get(..12).unwrap_or(&self.digest))
    }
}

/// The reason why a guest cannot continue. A failure ends the guest's link and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestFailure {
    /// The guest returned an error, because its parser gave up.
    #[error("the backend gave up: {0}")]
    Refused(String),
    /// The guest crashed because of a bug in it.
    #[error("the backend crashed: {0}")]
    Trapped(String),
    /// The host stopped the guest at a limit: run time, memory, or size of the returned data.
    #[error("the backend was cut off: {0}")]
    CutOff(String),
    /// The backend does not open links for a while, because its guests failed too often.
    #[error("the backend is paused: {0}")]
    Paused(String),
}

impl GuestFailure {
    /// Returns `refused`, `trapped`, `cut-off` or `paused`, for logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Trapped(_) => "trapped",
            Self::CutOff(_) => "cut-off",
            Self::Paused(_) => "paused",
        }
    }
}

/// One generation of a backend, which can open links.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Returns the backend's description of itself.
    fn descriptor(&self) -> &Descriptor;
    /// Returns the generation.
    fn generation(&self) -> &Generation;
    /// Returns the value of `settings.options` for every turn of this backend, a JSON object.
    fn options(&self) -> &str {
        "{}"
    }
    /// Returns whether the generation is on rollout: it serves some lanes, while another generation
    /// serves the rest.
    fn is_on_rollout(&self) -> bool {
        false
    }
    /// Returns how long the backend does not open links because its guests failed too often, or
    /// `None` if it opens links.
    fn paused(&self) -> Option<Duration> {
        None
    }
    /// Opens a fresh guest for a new link. Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// [`GuestFailure`] if the guest cannot be instantiated; [`GuestFailure::Paused`] while the
    /// backend is paused.
    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure>;
}

/// A running instance of a backend, which interprets the agent of one link.
#[async_trait]
pub trait Guest: Send {
    /// Passes inputs to the guest and returns its actions.
    ///
    /// After an error the guest is unusable and must be dropped. The same applies if the future was
    /// dropped before it completed.
    ///
    /// # Errors
    /// [`GuestFailure`], which ends the link.
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure>;

    /// Returns the guest's state for [`Guest::load`] of a newer generation, or of a fresh guest after
    /// a restart of the gateway. Returns `None` if this guest cannot be moved now. Called only
    /// between turns of a long-lived link.
    ///
    /// # Errors
    /// [`GuestFailure`], which ends the link.
    async fn save(&mut self) -> Result<Option<String>, GuestFailure>;

    /// Loads the state of another guest, of the descriptor version `saved_by`, into a guest that has
    /// not been called yet.
    ///
    /// # Errors
    /// [`GuestFailure::Refused`] if the state does not fit. Any failure ends this guest.
    async fn load(&mut self, state: &str, saved_by: &str) -> Result<(), GuestFailure>;
}

/// The serving version of a backend, and its new version on rollout. Both are on trial: their
/// failures do not count for the version that serves.
#[derive(Clone)]
pub struct RolloutPair {
    /// The version that serves.
    pub serving: Arc<dyn Backend>,
    /// The new version.
    pub successor: Arc<dyn Backend>,
}

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
