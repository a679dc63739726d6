//! The components of a folder that are in use.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::loaded::{CurrentExtensions, ExtensionInfo, ExtensionRefusal, LoadedExtension};
use super::loader::ExtensionLoader;
use super::world::ExtensionWorld;
use crate::engine::Engine;
use crate::trust::TrustGate;
use aetheel_runtime::supervisor;

/// The components of a folder. Dropping it ends the watch.
pub(super) struct ExtensionSet<E> {
    current: Arc<CurrentExtensions<E>>,
    loader: JoinHandle<()>,
}

impl<E: ExtensionWorld> ExtensionSet<E> {
    /// Loads the components of a subfolder of the backends folder, and follows its changes from
    /// then on. Returns the files that are not used.
    pub(super) async fn start(
        engine: Engine,
        backends: &Path,
        gate: TrustGate,
    ) -> (Self, Vec<ExtensionRefusal>) {
        let current = Arc::new(CurrentExtensions::<E>::default());
        let directory = backends.join(E::KIND.folder());
        let mut loader = ExtensionLoader::new(engine, &directory, gate, current.clone());
        loader.look_at_everything().await;
        let refused = loader.refused();
        let loader = supervisor::spawn(E::KIND.folder(), loader.follow());
        (Self { current, loader }, refused)
    }

    pub(super) fn current(&self) -> Arc<BTreeMap<String, Arc<LoadedExtension<E>>>> {
        self.current.load_full()
    }

    /// Stops using all components. The caller closes the set.
    pub(super) fn clear(&self) {
        self.current.store(Arc::default());
    }

    pub(super) fn list(&self) -> Vec<ExtensionInfo> {
        let current = self.current.load();
        current.values().map(|loaded| loaded.info(E::KIND)).collect()
    }
}

impl<E> Drop for ExtensionSet<E> {
    fn drop(&mut self) {
        self.loader.abort();
    }
}
