//! The port to backends and their guests. WASM components implement it; in tests, scripted backends
//! do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use aetheel_model::agent::{Action, Descriptor, TimedInput};

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
