//! Serves a kept component while the file of its backend is refused and nothing else serves the
//! backend.

use std::path::{Path, PathBuf};

use tokio::time::Instant;

use super::candidates::Candidate;
use super::loader::{KnownFile, Loader, PendingDecision};
use super::report::LoadReport;
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::{Components, LastServed};

impl Loader {
    /// Serves the newest kept component of each backend whose file is refused and that nothing else
    /// serves. It is checked and admitted like a file. The refused file is not changed, and the
    /// next valid one replaces the kept component.
    pub(super) async fn serve_fallbacks(&mut self) {
        let last = self.keeper.read(Components::last).await;
        let refused: Vec<(PathBuf, String, bool)> = self
            .files
            .iter()
            .filter(|(_, seen)| seen.name.is_none())
            .filter_map(|(path, seen)| {
                let waits = matches!(seen.pending_decision, Some(PendingDecision::Acceptance(_)));
                Some((path.clone(), backend_of(path, seen, &last)?, waits))
            })
            .collect();
        for (path, name, waits) in refused {
            if self.candidates.serving(&name).is_none() {
                self.serve_fallback(&path, &name, waits).await;
            }
        }
    }

    async fn serve_fallback(&mut self, path: &Path, name: &str, waits: bool) {
        let start = Instant::now();
        let Some(candidate) = self.find_fallback(path, name).await else { return };
        let version = candidate.descriptor.version.clone();
        self.candidates.insert(candidate);
        let Some(generation) = self.candidates.serve_best(name) else { return };
        if waits {
            tracing::warn!(backend = name, %generation, version, path = %path.display(), "the backend's file waits for approval; the version that served before serves until then; hint: `aetheel backend approve {name}`");
        } else {
            tracing::warn!(backend = name, %generation, version, path = %path.display(), "the backend's file is refused; the version that served before serves in its place; hint: put a valid file there, or restore the kept version with `aetheel backend rollback {name}`");
        }
        self.report(LoadReport::loaded(name, generation, path.to_owned(), start));
    }

    /// Returns the newest kept component of a backend that may serve.
    async fn find_fallback(&self, path: &Path, name: &str) -> Option<Candidate> {
        for served in self.keeper.before(name, None).await {
            match self.admitter.readmit(path, name, &served).await {
                Ok(candidate) => return Some(Candidate { is_fallback: true, ..candidate }),
                Err(error) => {
                    tracing::debug!(
                        backend = name,
                        digest = served.digest,
                        "a kept version may not serve: {}",
                        with_causes(&error)
                    );
                }
            }
        }
        None
    }
}

/// Returns the backend of a refused file: the one that it declares, or the one that served from it
/// last.
fn backend_of(path: &Path, seen: &KnownFile, last: &[LastServed]) -> Option<String> {
    if let Some(PendingDecision::Acceptance(wants)) = &seen.pending_decision {
        return Some(wants.descriptor.name.clone());
    }
    let file = path.file_name()?.to_str()?;
    let serves_from = |last: &&LastServed| match last.file.as_str() {
        "" => file.strip_suffix(".wasm") == Some(last.backend.as_str()),
        noted => noted == file,
    };
    last.iter().find(serves_from).map(|last| last.backend.clone())
}
