//! The keys of long-lived links.

use std::path::PathBuf;
use std::sync::Arc;

use aetheel_model::event::Lane;
use aetheel_recording::Backend;

/// The key of a long-lived link: the backend; the lane, if the link serves only one session; the
/// directory, if it serves many sessions, because its agent works there and is confined to it; and
/// then the digest of a generation on rollout, because other lanes use another generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkKey(
    pub(super) String,
    pub(super) Option<Lane>,
    Option<PathBuf>,
    Option<String>,
);

impl LinkKey {
    /// Returns the key of a link that serves one session.
    pub(super) fn single(backend: &Arc<dyn Backend>, lane: &Lane) -> Self {
        Self(backend.descriptor().name.clone(), Some(lane.clone()), None, None)
    }

    /// Returns the key of a link that serves many sessions.
    pub(super) fn shared(backend: &Arc<dyn Backend>, cwd: &str) -> Self {
        let apart = backend.is_on_rollout().then(|| backend.generation().digest.clone());
        Self(backend.descriptor().name.clone(), None, Some(PathBuf::from(cwd)), apart)
    }
}
