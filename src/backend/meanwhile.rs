//! Serving in the meantime: while a backend's only file waits to be accepted, an accepted component
//! that served before stands in.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::time::Instant;

use super::loader::Loader;
use super::report::LoadReport;
use super::wants::Wants;
use crate::plain::with_causes;

impl Loader {
    /// Has the newest kept component that is within what is accepted serve in the place of each of
    /// these files whose backend nothing serves. It is judged and admitted like any other; the file
    /// stays as it is.
    pub(super) async fn serve_meanwhile(&mut self, waiting: Vec<(PathBuf, Arc<Wants>)>) {
        let Some(components) = self.components.clone() else { return };
        for (path, wants) in waiting {
            let (begun, name) = (Instant::now(), wants.descriptor.name.clone());
            if self.candidates.serving(&name).is_some() {
                continue;
            }
            let (store, backend) = (components.clone(), name.clone());
            let kept = tokio::task::spawn_blocking(move || store.before(&backend, None))
                .await
                .unwrap_or_default();
            for served in kept {
                match self.readmit(&path, &name, &served).await {
                    Ok(candidate) => {
                        let version = candidate.descriptor.version.clone();
                        self.candidates.insert(candidate);
                        if let Some(generation) = self.candidates.serve_best(&name) {
                            tracing::warn!(backend = %name, %generation, version, path = %path.display(), "its file waits to be accepted; what served before serves meanwhile; hint: `aetheel backend approve {name}`");
                            self.report(LoadReport::Loaded {
                                name,
                                generation,
                                path,
                                took: begun.elapsed(),
                            });
                        }
                        break;
                    }
                    Err(error) => {
                        tracing::debug!(backend = %name, digest = served.digest, "a kept component may not serve: {}", with_causes(&error))
                    }
                }
            }
        }
    }
}
