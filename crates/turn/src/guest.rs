//! The port behind which an agent is understood: a WASM component in the product, a scripted one in
//! tests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use aetheel_model::agent::{Action, Descriptor, TimedInput};

/// Which load of a backend something belongs to. A turn keeps the one it started with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Counts the loads of this backend, from 1.
    pub number: u32,
    /// SHA-256 of the component, and of what a launch profile makes of it where there is one;
    /// lower-case hex.
    pub digest: String,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.number, self.digest.get(..12).unwrap_or(&self.digest))
    }
}

/// Why a guest cannot go on. Each ends its link and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestFailure {
    /// The guest returned an error: its parser gave up.
    #[error("the backend gave up: {0}")]
    Refused(String),
    /// The guest crashed: a bug in it.
    #[error("the backend crashed: {0}")]
    Trapped(String),
    /// The host stopped it at a limit: run time, memory, size of what it returned.
    #[error("the backend was cut off: {0}")]
    CutOff(String),
    /// The backend opens no links for a while, because its guests failed too often.
    #[error("the backend is paused: {0}")]
    Paused(String),
}

impl GuestFailure {
    /// `refused`, `trapped`, `cut-off` or `paused`, for logs and metrics.
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

/// One generation of a backend, ready to open links.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Its description of itself.
    fn descriptor(&self) -> &Descriptor;
    /// Which load this is.
    fn generation(&self) -> &Generation;
    /// `settings.options` of every turn with it: a JSON object.
    fn options(&self) -> &str {
        "{}"
    }
    /// Returns how long it opens no links, because its guests failed too often; `None` if it does.
    fn paused(&self) -> Option<Duration> {
        None
    }
    /// Opens a link: a fresh guest with no history. Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// [`GuestFailure`] when the guest cannot be instantiated; [`GuestFailure::Paused`] while the
    /// backend is paused.
    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure>;
}

/// A guest: the understanding half of a link.
#[async_trait]
pub trait Guest: Send {
    /// Tells the guest what happened and returns what it wants done.
    ///
    /// After an error the guest is unusable and must be dropped; so it is when the future was
    /// dropped half-way.
    ///
    /// # Errors
    /// [`GuestFailure`], which ends the link.
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure>;

    /// Returns the guest's state for [`Guest::load`] of a newer generation; none: it cannot move.
    /// Only between turns of a long-lived link.
    ///
    /// # Errors
    /// [`GuestFailure`], which ends the link.
    async fn save(&mut self) -> Result<Option<String>, GuestFailure>;

    /// Hands a guest that has not been called yet the state of an older generation with descriptor
    /// version `saved_by`.
    ///
    /// # Errors
    /// [`GuestFailure::Refused`] when the state does not fit; any failure ends this guest.
    async fn load(&mut self, state: &str, saved_by: &str) -> Result<(), GuestFailure>;
}

/// Where a component is that is known of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// It serves.
    Serving,
    /// It was let in, and another one serves.
    Beside,
    /// It served earlier and was kept.
    Earlier,
    /// It came with the program, and the operator has another one.
    Shipped,
}

/// A component that is known of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownComponent {
    /// SHA-256 of its file, lower-case hex.
    pub digest: String,
    /// The version its descriptor gives, where it is loaded.
    pub version: Option<String>,
    /// Where it is.
    pub shelf: Shelf,
}

/// The backends there are, by name.
#[async_trait]
pub trait Backends: Send + Sync {
    /// Returns the current generation of a backend; a turn asks once, at its start.
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>>;
    /// Returns the generation of a backend whose component has this digest, also an earlier one that
    /// may still be used; none: there is none.
    async fn kept(&self, name: &str, digest: &str) -> Option<Arc<dyn Backend>> {
        self.get(name).filter(|backend| backend.generation().digest == digest)
    }
    /// The names, sorted.
    fn names(&self) -> Vec<String>;
    /// The names of those that can work here, as far as is known.
    fn offered(&self) -> Vec<String> {
        self.names()
    }
    /// Why a backend cannot work here now, in a few words for people, for example `it is not signed
    /// in`; none: as far as is known it can.
    async fn unavailable(&self, _name: &str) -> Option<String> {
        None
    }
    /// The parts of a backend that wait for the operator's acceptance, one line each.
    fn unaccepted(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
    /// The components that are known of a backend, what serves first.
    async fn components(&self, _name: &str) -> Vec<KnownComponent> {
        Vec::new()
    }
    /// Opens one of these to be tried beside what serves: judged and admitted like that, and its
    /// failures are nothing to it.
    ///
    /// # Errors
    /// Why it may not be used, in words for an owner.
    async fn on_trial(&self, name: &str, _digest: &str) -> Result<Arc<dyn Backend>, String> {
        Err(format!("there is no such component of `{name}`"))
    }
    /// Has the component serve again that served before the generation with this digest, and
    /// returns what then serves.
    ///
    /// # Errors
    /// Why it stays as it is, and what to do: there is no earlier one, another one serves by now,
    /// the folder cannot be written.
    async fn roll_back(&self, name: &str, _from: &Generation) -> Result<Generation, String> {
        Err(format!("`{name}` has nothing before it that could serve again"))
    }
}
