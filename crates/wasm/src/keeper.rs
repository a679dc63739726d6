//! Keeps components in the store: those that serve, and those that serve a part of the lanes because
//! they are on rollout or in development.
//!
//! The recordings of turns name components by their digest. So commands and, after a restart, links
//! find them when nothing else has them any more.

use std::path::Path;
use std::sync::Arc;

use super::candidates::ServingBackend;
use super::source;
use super::trust::{read_signature, signature_of};
use aetheel_model::plain::with_causes;
use aetheel_recording::Backend as _;
use aetheel_store::workspace::{Components, ServedComponent};

pub(super) struct ComponentKeeper {
    pub(super) store: Option<Components>,
    /// Whether components that serve are added to the store.
    pub(super) is_keeping: bool,
    /// The largest size of a component, in bytes.
    pub(super) limit: u64,
}

impl ComponentKeeper {
    /// Reads the store. Without a store, returns an empty value.
    pub(super) async fn read<T: Default + Send + 'static>(
        &self,
        read: impl FnOnce(&Components) -> T + Send + 'static,
    ) -> T {
        let Some(store) = self.store.clone() else { return T::default() };
        tokio::task::spawn_blocking(move || read(&store)).await.unwrap_or_default()
    }

    /// Returns the kept components that served before one with a digest, or all without a digest.
    pub(super) async fn before(&self, name: &str, digest: Option<String>) -> Vec<ServedComponent> {
        let name = name.to_owned();
        self.read(move |store| store.before(&name, digest.as_deref())).await
    }

    fn in_use(&self) -> Option<Components> {
        self.store.clone().filter(|_| self.is_keeping)
    }

    /// Adds the component that serves under a name to the store, if the store is in use. Reads its
    /// file again only if its bytes are neither in `loaded` nor in the store.
    pub(super) async fn keep(
        &self,
        name: &str,
        serving: Option<ServingBackend>,
        loaded: Option<(String, Arc<[u8]>)>,
    ) {
        let (Some(components), Some(serving)) = (self.in_use(), serving) else { return };
        let digest = serving.backend.generation().digest.clone();
        let loaded = loaded.filter(|(loaded, _)| *loaded == digest).map(|(_, bytes)| bytes);
        let (backend, path) = (name.to_owned(), serving.info.path.clone());
        let limit = self.limit;
        let saving = tokio::task::spawn_blocking(move || {
            if !components.renew(&backend, &digest)? {
                let Some(bytes) = loaded.or_else(|| read_unchanged(&path, limit, &digest)) else {
                    tracing::debug!(backend, path = %path.display(), "the serving version is not kept: its file has other content by now");
                    return Ok(());
                };
                let signature = read_signature(&signature_of(&path));
                components.keep(&backend, &ServedComponent { digest, bytes, signature })?;
            }
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            components.save_file_name(&backend, &file)
        });
        if let Ok(Err(error)) = saving.await {
            tracing::warn!(
                backend = name,
                "the serving version cannot be kept for a rollback: {}; hint: check the free space and the permissions of CONFIG_DIR",
                with_causes(&error)
            );
        }
    }

    /// Adds a component that serves a part of the lanes to the store, if the store is in use. Reads
    /// the file if `bytes` is `None`.
    pub(super) async fn keep_partial(
        &self,
        name: &str,
        path: &Path,
        digest: &str,
        bytes: Option<Arc<[u8]>>,
    ) {
        let Some(components) = self.in_use() else { return };
        let (backend, path, digest) = (name.to_owned(), path.to_owned(), digest.to_owned());
        let limit = self.limit;
        let saving = tokio::task::spawn_blocking(move || {
            if components.file(&backend, &digest).is_some() {
                return Ok(());
            }
            let Some(bytes) = bytes.or_else(|| read_unchanged(&path, limit, &digest)) else {
                return Ok(());
            };
            let signature = read_signature(&signature_of(&path));
            components.keep_partial(&backend, &ServedComponent { digest, bytes, signature })
        });
        if let Ok(Err(error)) = saving.await {
            tracing::warn!(
                backend = name,
                "a version that serves some channels cannot be kept, so commands may not find it later: {}; hint: check the free space and the permissions of CONFIG_DIR",
                with_causes(&error)
            );
        }
    }
}

/// Returns the content of a file, unless it has another digest by now.
fn read_unchanged(path: &Path, limit: u64, digest: &str) -> Option<Arc<[u8]>> {
    let source = source::read_now(path, limit).ok()?;
    (source.digest == digest).then_some(source.bytes)
}
