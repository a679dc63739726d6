//! Finds and loads components that served earlier, for links whose agents outlived the gateway. Each is
//! checked and admitted like any other, and serves no new turn.

use std::sync::Arc;

use super::component::ComponentBackend;
use super::loader::Loader;
use aetheel_model::plain::with_causes;
use aetheel_recording::{Backend as _, Generation};

impl Loader {
    /// Returns whether a component of a backend that served earlier is kept, besides those that
    /// serve, wait or are on rollout.
    pub(super) async fn has_earlier(&self, name: &str) -> bool {
        let backend = name.to_owned();
        let digests = self.keeper.read(move |store| store.kept_digests(&backend)).await;
        let serving = self.candidates.serving(name).map(|serving| serving.backend);
        let successor = self.candidates.successor(name);
        let is_loaded = |digest: &String| {
            serving.as_ref().is_some_and(|serving| serving.generation().digest == *digest)
                || self.candidates.of(name).chain(&successor).any(|it| it.digest == *digest)
        };
        !digests.iter().all(is_loaded)
    }

    /// Returns the kept components of a backend that may still be used: those that served, the
    /// latest first, and then those that served some lanes. Their generations have the number 0.
    pub(super) async fn kept_components(&self, name: &str) -> Vec<Arc<ComponentBackend>> {
        let backend = name.to_owned();
        let components = self.keeper.read(move |store| store.all(&backend)).await;
        let target = self.watch.directory.join(format!("{name}.wasm"));
        let mut backends = Vec::new();
        for served in components {
            match self.admitter.readmit(&target, name, &served).await {
                Ok(candidate) => {
                    let generation = Generation { number: 0, digest: candidate.digest };
                    backends.push(Arc::new(ComponentBackend::new(
                        candidate.descriptor,
                        generation,
                        candidate.blueprint,
                    )));
                }
                Err(error) => {
                    tracing::debug!(backend = %name, digest = served.digest, "a kept version may not serve: {}", with_causes(&error));
                }
            }
        }
        backends
    }
}
