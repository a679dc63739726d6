//! All backends, as an operator sees them, and rolling a backend back.

use std::sync::Arc;
use std::time::Duration;

use super::backend_problem;
use crate::rollout::{RolloutView, Rollouts};
use crate::{LaneRequestError, Shared};
use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{FailureKind, QueryKind, QueryResult};
use aetheel_model::plain::one_line;
use aetheel_recording::reason::readable_message;
use aetheel_turn::{QueryError, VersionError};

/// A backend and its current state.
#[derive(Clone, Debug, Default)]
pub struct BackendView {
    /// The name of the backend.
    pub name: String,
    /// The name for people.
    pub label: String,
    /// The version of the loaded component; empty if none is loaded.
    pub version: String,
    /// The current generation.
    pub generation: Option<String>,
    /// The version that the agent reported.
    pub agent_version: Option<String>,
    /// The reason why the backend cannot work here. `None` if it can, or if that is not known in
    /// time.
    pub unable: Option<String>,
    /// The new version on rollout, if there is one.
    pub rollout: Option<RolloutView>,
    /// Whether an earlier component is saved, so that the backend can be rolled back.
    pub has_earlier: bool,
    /// Hints for the operator: components that wait for approval, and unknown output of the agent.
    pub notes: Vec<String>,
}

/// The reason why a backend was not rolled back. The texts are for owners.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// No backend has this name.
    #[error("There is no backend {0:?}.")]
    NoBackend(String),
    /// The backend with this name was replaced in the meantime.
    #[error("Another version of {0} serves by now; nothing was changed.")]
    Superseded(String),
    /// The earlier component cannot be restored.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// The reason why a backend does not work. The texts are for the person who asked.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The backend does not exist, or cannot work on this machine.
    #[error(transparent)]
    Backend(#[from] LaneRequestError),
    /// The agent did not answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The agent reported a failure.
    #[error("{name} does not work: {message}")]
    Failed {
        /// The name of the backend.
        name: String,
        /// The agent's message, on one line.
        message: String,
    },
    /// The agent answered another question.
    #[error("{name} gave an unexpected answer: {answer:?}")]
    Unexpected {
        /// The name of the backend.
        name: String,
        /// The answer.
        answer: QueryResult,
    },
}

/// The time limit for an agent's health report. Some agents take seconds to start.
const PING_TIMEOUT: Duration = Duration::from_secs(30);

/// Lists, checks, rolls back and upgrades backends. Cheap to clone.
#[derive(Clone)]
pub struct BackendControl {
    shared: Arc<Shared>,
}

impl BackendControl {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns all backends, ordered by name.
    pub async fn list(&self) -> Vec<BackendView> {
        let shared = &self.shared;
        let rollouts = Rollouts::new(shared.clone());
        let mut views = Vec::new();
        for name in shared.deps.backends.names() {
            let backend = shared.deps.backends.get(&name);
            let agent_version = shared.links.host().agent_version(&name);
            let mut notes = shared.deps.backends.unaccepted(&name);
            notes.extend(backend.as_ref().and_then(|backend| {
                shared.drift.summary(&name, backend.generation(), agent_version.as_deref())
            }));
            notes.extend(shared.rollout.summary(&name));
            let descriptor = backend.as_ref().map(|backend| backend.descriptor());
            let of = descriptor.map(|of| (of.label().to_owned(), of.version.clone()));
            let (label, version) = of.unwrap_or_else(|| (name.clone(), String::new()));
            views.push(BackendView {
                label,
                version,
                generation: backend.as_ref().map(|backend| backend.generation().to_string()),
                agent_version,
                unable: backend_problem(&*shared.deps.backends, &name).await,
                rollout: rollouts.of(&name),
                has_earlier: shared.deps.backends.has_earlier(&name).await,
                notes,
                name,
            });
        }
        views
    }

    /// Rolls a backend back to the component before this generation. Returns the generation that
    /// then serves.
    ///
    /// # Errors
    /// [`RollbackError`]. Nothing was changed.
    pub async fn roll_back(&self, name: &str, generation: &str) -> Result<String, RollbackError> {
        let backends = &self.shared.deps.backends;
        let backend =
            backends.get(name).ok_or_else(|| RollbackError::NoBackend(name.to_owned()))?;
        if backend.generation().to_string() != generation {
            return Err(RollbackError::Superseded(name.to_owned()));
        }
        let serves = backends.roll_back(name, backend.generation()).await?;
        Ok(serves.to_string())
    }

    /// Checks whether a backend can work. For a backend with a long-lived agent, this asks the
    /// agent and may start it. Returns a message of one line.
    ///
    /// # Errors
    /// [`PingError`] if the backend does not work.
    pub async fn ping(&self, name: &str) -> Result<String, PingError> {
        let backends = &self.shared.deps.backends;
        let Some(backend) = backends.get(name) else {
            let offered = backends.offered();
            return Err(LaneRequestError::NoBackend { name: name.to_owned(), offered }.into());
        };
        if let Some(reason) = self.shared.deps.backends.unavailable(name).await {
            return Err(LaneRequestError::Unavailable { name: name.to_owned(), reason }.into());
        }
        if backend.descriptor().sharing == LinkSharing::Turn {
            return Ok(format!("{name} is ready; it runs its agent once a turn"));
        }
        match self.shared.links.query(&backend, QueryKind::Health, PING_TIMEOUT).await? {
            QueryResult::Health(report) => Ok(format!("{name} is ready: {}", one_line(&report))),
            QueryResult::Failed(failure) if failure.kind == FailureKind::Unsupported => {
                Ok(format!("{name} is ready; its agent does not report its health"))
            }
            QueryResult::Failed(failure) => Err(PingError::Failed {
                name: name.to_owned(),
                message: one_line(&readable_message(
                    &failure.message,
                    "",
                    &backend.descriptor().stderr_noise,
                )),
            }),
            other => Err(PingError::Unexpected { name: name.to_owned(), answer: other }),
        }
    }

    /// Moves the running turns of these backends to the current generation, if replaying a turn
    /// with that generation gives the same actions.
    pub fn upgrade_turns(&self, backends: &[String]) {
        for backend in backends.iter().filter_map(|name| self.shared.deps.backends.get(name)) {
            self.shared.links.renew(&backend);
        }
    }
}
