//! All backends, as an operator sees them, and rolling a backend back.

use crate::Dispatcher;
use aetheel_turn::ComponentStatus;

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
    /// Why the backend cannot work here. `None` if it can, or if that is not known in time.
    pub unable: Option<String>,
    /// Whether an earlier component is saved, so that the backend can be rolled back.
    pub has_earlier: bool,
    /// Hints for the operator: components that wait for approval, and unknown output of the agent.
    pub notes: Vec<String>,
}

impl Dispatcher {
    /// Returns all backends, ordered by name.
    pub async fn backends(&self) -> Vec<BackendView> {
        let inner = &self.inner;
        let mut views = Vec::new();
        for name in inner.deps.backends.names() {
            let backend = inner.deps.backends.get(&name);
            let agent_version = inner.links.host().agent_version(&name);
            let mut notes = inner.deps.backends.unaccepted(&name);
            notes.extend(backend.as_ref().and_then(|backend| {
                inner.drift.summary(&name, backend.generation(), agent_version.as_deref())
            }));
            let known = inner.deps.backends.components(&name).await;
            let descriptor = backend.as_ref().map(|backend| backend.descriptor());
            let of = descriptor.map(|of| (of.label().to_owned(), of.version.clone()));
            let (label, version) = of.unwrap_or_else(|| (name.clone(), String::new()));
            views.push(BackendView {
                label,
                version,
                generation: backend.as_ref().map(|backend| backend.generation().to_string()),
                agent_version,
                unable: inner.unable(&name).await,
                has_earlier: known.iter().any(|known| known.status == ComponentStatus::Previous),
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
    /// The reason, worded for an owner. Nothing was changed.
    pub async fn roll_back(&self, name: &str, generation: &str) -> Result<String, String> {
        let backends = &self.inner.deps.backends;
        let backend = backends.get(name).ok_or_else(|| format!("There is no backend {name:?}."))?;
        if backend.generation().to_string() != generation {
            return Err(format!("Another version of {name} serves by now; nothing was changed."));
        }
        let serves = backends.roll_back(name, backend.generation()).await?;
        Ok(serves.to_string())
    }
}
