//! The keys of long-lived links.

use std::path::PathBuf;
use std::sync::Arc;

use aetheel_model::event::Lane;
use aetheel_recording::Backend;

/// The key of a long-lived link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkKey {
    pub(super) backend: String,
    /// The lane, if the link serves only one session.
    pub(super) lane: Option<Lane>,
    /// The directory, if the link serves many sessions, because its agent works there and is
    /// confined to it.
    directory: Option<PathBuf>,
    /// The digest of a generation on rollout, because other lanes use another generation.
    digest: Option<String>,
}

impl LinkKey {
    /// Returns the key of a link that serves one session.
    pub(super) fn single(backend: &Arc<dyn Backend>, lane: &Lane) -> Self {
        let name = backend.descriptor().name.clone();
        Self { backend: name, lane: Some(lane.clone()), directory: None, digest: None }
    }

    /// Returns the key of a link that serves many sessions.
    pub(super) fn shared(backend: &Arc<dyn Backend>, cwd: &str) -> Self {
        let name = backend.descriptor().name.clone();
        let digest = backend.is_on_rollout().then(|| backend.generation().digest.clone());
        Self { backend: name, lane: None, directory: Some(PathBuf::from(cwd)), digest }
    }
}
