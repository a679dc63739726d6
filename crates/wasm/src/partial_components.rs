//! Keeps the components that serve a part of the lanes: those on rollout and those in development.
//!
//! The recordings of their turns name them by their digest. So commands and, after a restart, links
//! find them when nothing else has them any more.

use std::path::Path;
use std::sync::Arc;

use super::loader::Loader;
use super::source;
use super::trust::{read_signature, signature_of};
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::ServedComponent;

/// The part of the loader that keeps these components.
pub(super) struct PartialComponents<'a>(pub(super) &'a Loader);

impl PartialComponents<'_> {
    /// Adds a component that serves a part of the lanes to the store, if the store is in use. Reads
    /// the file if `bytes` is `None`.
    pub(super) async fn keep(
        &self,
        name: &str,
        path: &Path,
        digest: &str,
        bytes: Option<Arc<[u8]>>,
    ) {
        let Some(components) = self.0.components.clone().filter(|_| self.0.keeping) else { return };
        let (backend, path, digest) = (name.to_owned(), path.to_owned(), digest.to_owned());
        let limit = self.0.engine.limits().component;
        let kept = tokio::task::spawn_blocking(move || {
            if components.file(&backend, &digest).is_some() {
                return Ok(());
            }
            let read = || source::read_now(&path, limit).ok();
            let unchanged = || Some(read().filter(|source| source.digest == digest)?.bytes);
            let Some(bytes) = bytes.or_else(unchanged) else { return Ok(()) };
            let signature = read_signature(&signature_of(&path));
            components.keep_partial(&backend, &ServedComponent { digest, bytes, signature })
        });
        if let Ok(Err(error)) = kept.await {
            tracing::warn!(
                backend = name,
                "a version that serves some channels cannot be kept, so commands may not find it later: {}; hint: check the free space and the permissions of CONFIG_DIR",
                with_causes(&error)
            );
        }
    }

    /// Adds the component on rollout of a backend to the store.
    pub(super) async fn keep_successor(&self, name: &str) {
        if let Some(successor) = self.0.candidates.successor(name) {
            self.keep(name, &successor.path, &successor.digest, None).await;
        }
    }
}
