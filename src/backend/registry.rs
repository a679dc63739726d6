//! The backends there are, by name, and the news about them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;

use super::admission::AdmissionError;
use super::component::ComponentBackend;
use super::engine::Engine;
use super::loader::Loader;
use crate::turn::{Backend, Backends, Generation};

/// The current generation of every backend. Only the loader replaces it; readers never wait.
pub(super) type Current = ArcSwap<BTreeMap<String, Arc<ComponentBackend>>>;

/// Where components come from.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The folder of `*.wasm` files. It may be missing and appear later.
    pub directory: PathBuf,
    /// How long a file must not change before it is loaded; a quarter of it when its writer closed or renamed it.
    pub quiet: Duration,
    /// How often everything is looked at, whatever the watch says.
    pub rescan: Duration,
}

impl RegistryOptions {
    /// The usual times: 200 ms and 30 s.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), quiet: Duration::from_millis(200), rescan: Duration::from_secs(30) }
    }
}

/// What became of one look at one file.
#[derive(Clone, Debug)]
pub enum LoadReport {
    /// It serves.
    Loaded {
        /// The backend's name.
        name: String,
        /// The generation that now answers new turns.
        generation: Generation,
        /// The file.
        path: PathBuf,
        /// From the decision to load until it served.
        took: Duration,
    },
    /// It does not; what served before still does.
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: Arc<AdmissionError>,
    },
    /// It was touched, but has the content that already serves.
    Unchanged {
        /// The backend's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// It is gone; its last generation still serves.
    Vanished {
        /// The backend's name.
        name: String,
        /// Where it was.
        path: PathBuf,
    },
}

/// Name to current backend, kept current. Dropping it ends the watch; backends in use live on.
pub struct Registry {
    current: Arc<Current>,
    reports: broadcast::Sender<LoadReport>,
    rescan: mpsc::Sender<()>,
    loader: JoinHandle<()>,
}

impl Registry {
    /// Loads all components of the folder, one after the other by name, and from then on follows its changes.
    ///
    /// Returns what became of each file. A missing folder is no error: it is logged and waited for.
    pub async fn start(engine: Engine, options: RegistryOptions) -> (Self, Vec<LoadReport>) {
        let current = Arc::new(Current::default());
        let (reports, mut first) = broadcast::channel(1024);
        let (rescan, requests) = mpsc::channel(1);
        let mut loader = Loader::new(engine, options, current.clone(), reports.clone());
        loader.look_at_everything().await;
        let mut loaded = Vec::new();
        while let Ok(report) = first.try_recv() {
            loaded.push(report);
        }
        let loader = tokio::spawn(loader.follow(requests));
        (Self { current, reports, rescan, loader }, loaded)
    }

    /// Returns the news from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<LoadReport> {
        self.reports.subscribe()
    }

    /// Has the loader look at everything soon, as the slow rescan does.
    pub fn rescan(&self) {
        let _ = self.rescan.try_send(()); // full: one is about to happen
    }

    /// Returns the current generation of a backend, with its concrete type.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<Arc<ComponentBackend>> {
        self.current.load().get(name).cloned()
    }
}

impl Backends for Registry {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.component(name).map(|backend| backend as Arc<dyn Backend>)
    }

    fn names(&self) -> Vec<String> {
        self.current.load().keys().cloned().collect()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.loader.abort();
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.current.load().values()).finish()
    }
}
