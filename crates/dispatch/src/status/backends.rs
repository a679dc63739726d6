//! All backends as an operator sees them, and going back to the component before.

use crate::Dispatcher;
use aetheel_turn::Shelf;

/// A backend, and what serves of it.
#[derive(Clone, Debug, Default)]
pub struct BackendView {
    /// Its name, and the one for people.
    pub name: String,
    /// The same for people.
    pub label: String,
    /// The version of its component; empty: none serves.
    pub version: String,
    /// Which load of it serves.
    pub generation: Option<String>,
    /// The version that its agent answered when it was asked.
    pub agent_version: Option<String>,
    /// Why it cannot work here, as far as that is known soon.
    pub unable: Option<String>,
    /// Whether a component that served earlier is kept, to which it can be rolled back.
    pub has_earlier: bool,
    /// What waits for the operator's acceptance, and what it does not understand of its agent.
    pub notes: Vec<String>,
}

impl Dispatcher {
    /// All backends, by name.
    pub async fn backends(&self) -> Vec<BackendView> {
        let inner = &self.inner;
        let mut views = Vec::new();
        for name in inner.parts.backends.names() {
            let backend = inner.parts.backends.get(&name);
            let agent_version = inner.links.host().agent_version(&name);
            let mut notes = inner.parts.backends.unaccepted(&name);
            notes.extend(backend.as_ref().and_then(|backend| {
                inner.drift.summary(&name, backend.generation(), agent_version.as_deref())
            }));
            let known = inner.parts.backends.components(&name).await;
            let descriptor = backend.as_ref().map(|backend| backend.descriptor());
            let of = descriptor.map(|of| (of.label().to_owned(), of.version.clone()));
            let (label, version) = of.unwrap_or_else(|| (name.clone(), String::new()));
            views.push(BackendView {
                label,
                version,
                generation: backend.as_ref().map(|backend| backend.generation().to_string()),
                agent_version,
                unable: inner.unable(&name).await,
                has_earlier: known.iter().any(|known| known.shelf == Shelf::Earlier),
                notes,
                name,
            });
        }
        views
    }

    /// Has the component serve again that served before this generation of a backend; returns the
    /// generation that then serves.
    ///
    /// # Errors
    /// Why it stays as it is; in words for an owner.
    pub async fn roll_back(&self, name: &str, generation: &str) -> Result<String, String> {
        let backends = &self.inner.parts.backends;
        let backend = backends.get(name).ok_or_else(|| format!("There is no backend {name:?}."))?;
        if backend.generation().to_string() != generation {
            return Err(format!(
                "Another generation of {name} serves by now; nothing was changed."
            ));
        }
        let serves = backends.roll_back(name, backend.generation()).await?;
        Ok(serves.to_string())
    }
}
