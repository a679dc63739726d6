//! The backends by name, and the reports on them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::candidates::{AgentVersions, Candidates, Current, ServingInfo, Successors};
use super::component::ComponentBackend;
use super::engine::Engine;
use super::live_versions::{LiveLoader, LiveVersions};
use super::loader::{Loader, LoaderRequest, UnacceptedFiles};
use super::options::RegistryOptions;
use super::partial::PartialVersions;
use super::report::LoadReport;
use super::requested::RequestedCapabilities;
use aetheel_recording::{Backend, Generation, RolloutPair};
use aetheel_runtime::supervisor;
use aetheel_turn::{Backends, VersionError};

/// The current backends by name. Dropping it ends the watch; backends that are in use stay usable.
pub struct Registry {
    current: Arc<Current>,
    partial: PartialVersions,
    agents: Arc<AgentVersions>,
    reports: broadcast::Sender<LoadReport>,
    requests: mpsc::UnboundedSender<LoaderRequest>,
    unaccepted_files: Arc<UnacceptedFiles>,
    loader: JoinHandle<()>,
}

impl Registry {
    /// Loads all components of the folder, one after the other by name, and follows its changes
    /// from then on.
    ///
    /// Returns a report on each file. A missing folder is not an error: it is logged, and
    /// components are loaded once it exists.
    pub async fn start(engine: Engine, options: RegistryOptions) -> (Self, Vec<LoadReport>) {
        let (current, agents) = (Arc::new(Current::default()), Arc::new(AgentVersions::default()));
        let (reports, mut first) = broadcast::channel(1024);
        let (requests, asked) = mpsc::unbounded_channel();
        let waiting = Arc::new(UnacceptedFiles::default());
        let successors = Arc::new(Successors::default());
        let candidates = Candidates::new(current.clone(), successors.clone(), agents.clone());
        let live = Arc::new(LiveVersions::default());
        let live_loader = LiveLoader::new(live.clone());
        let partial = PartialVersions { successors, live, requests: requests.clone() };
        let reporter = reports.clone();
        let mut loader =
            Loader::new(engine, options, candidates, reporter, waiting.clone(), live_loader);
        loader.look_at_everything().await;
        loader.serve_fallbacks().await;
        let mut loaded = Vec::new();
        while let Ok(report) = first.try_recv() {
            loaded.push(report);
        }
        let loader = supervisor::spawn("backends", loader.follow(asked));
        let unaccepted_files = waiting;
        let registry =
            Self { current, partial, agents, reports, requests, unaccepted_files, loader };
        (registry, loaded)
    }

    /// Returns a receiver of the reports from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<LoadReport> {
        self.reports.subscribe()
    }

    /// Asks the loader to check all files soon, as its periodic rescan does.
    pub fn rescan(&self) {
        self.ask(LoaderRequest::Rescan);
    }

    /// Returns the files whose capabilities wait for approval, with these capabilities.
    #[must_use]
    pub fn waiting(&self) -> Vec<(PathBuf, Arc<RequestedCapabilities>)> {
        unaccepted_list(&self.unaccepted_files)
    }

    /// Keeps components that serve from now on, for rollbacks.
    pub fn keep(&self) {
        self.ask(LoaderRequest::Keep);
    }

    /// Returns the versions that serve a part of the lanes.
    #[must_use]
    pub fn partial(&self) -> &PartialVersions {
        &self.partial
    }

    /// Sets the version of a backend's agent. Returns, once it serves, whether another component
    /// was selected.
    pub async fn set_agent_version(&self, name: &str, version: &str) -> bool {
        let before = self.agents.lock().insert(name.to_owned(), version.to_owned());
        let a_choice =
            self.serving_info(name).is_some_and(|chosen| !chosen.alternatives.is_empty())
                || self.partial.successors.load().contains_key(name);
        if !a_choice || before.as_deref() == Some(version) {
            return false;
        }
        let (done, changed) = oneshot::channel();
        self.ask(LoaderRequest::Choose(name.to_owned(), done));
        changed.await.unwrap_or(false)
    }

    /// Returns the origin of the component that serves under a name, and the reason for its
    /// selection.
    #[must_use]
    pub fn serving_info(&self, name: &str) -> Option<Arc<ServingInfo>> {
        self.current.load().get(name).map(|serving| serving.info.clone())
    }

    /// Returns the name and version of the kept component that serves in place of this file.
    #[must_use]
    pub fn fallback_of(&self, path: &Path) -> Option<(String, String)> {
        let current = self.current.load();
        let (name, serving) = current
            .iter()
            .find(|(_, serving)| serving.info.is_fallback && serving.info.path == path)?;
        Some((name.clone(), serving.backend.descriptor().version.clone()))
    }

    /// Makes the component serve that served before the generation with this digest or, without a
    /// digest, the one that served last. Returns the generation that serves then.
    ///
    /// # Errors
    /// [`VersionError`] if nothing was changed.
    pub async fn restore_previous(
        &self,
        name: &str,
        from: Option<&str>,
    ) -> Result<Generation, VersionError> {
        let (done, generation) = oneshot::channel();
        self.ask(LoaderRequest::RollBack(name.to_owned(), from.map(str::to_owned), done));
        generation.await.unwrap_or(Err(VersionError::ShuttingDown))
    }

    /// Returns the kept components of a backend that may still be used, the latest first.
    pub async fn kept_components(&self, name: &str) -> Vec<Arc<ComponentBackend>> {
        let (done, components) = oneshot::channel();
        self.ask(LoaderRequest::Kept(name.to_owned(), done));
        components.await.unwrap_or_default()
    }

    /// Returns the current generation of a backend, with its concrete type.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<Arc<ComponentBackend>> {
        self.current.load().get(name).map(|serving| serving.backend.clone())
    }

    fn ask(&self, request: LoaderRequest) {
        let _ = self.requests.send(request); // fails only while the loader ends
    }
}

#[async_trait]
impl Backends for Registry {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.component(name).map(|backend| backend as Arc<dyn Backend>)
    }

    fn names(&self) -> Vec<String> {
        self.current.load().keys().cloned().collect()
    }

    async fn has_earlier(&self, name: &str) -> bool {
        let (done, has_earlier) = oneshot::channel();
        self.ask(LoaderRequest::HasEarlier(name.to_owned(), done));
        has_earlier.await.unwrap_or(false)
    }

    fn rollout(&self, name: &str) -> Option<RolloutPair> {
        let successor = self.partial.successors.load().get(name)?.candidate.clone();
        Some(RolloutPair {
            serving: Arc::new(self.component(name)?.for_trial()),
            successor: Arc::new(ComponentBackend::on_trial(
                successor.descriptor,
                successor.digest,
                successor.blueprint,
            )),
        })
    }

    async fn promote(&self, name: &str, digest: &str) -> Result<Generation, VersionError> {
        let (done, generation) = oneshot::channel();
        self.ask(LoaderRequest::Promote(name.to_owned(), digest.to_owned(), done));
        generation.await.unwrap_or(Err(VersionError::ShuttingDown))
    }

    async fn withdraw(&self, name: &str, digest: &str) -> Result<PathBuf, VersionError> {
        let (done, moved) = oneshot::channel();
        self.ask(LoaderRequest::Withdraw(name.to_owned(), digest.to_owned(), done));
        moved.await.unwrap_or(Err(VersionError::ShuttingDown))
    }

    async fn roll_back(&self, name: &str, from: &Generation) -> Result<Generation, VersionError> {
        self.restore_previous(name, Some(&from.digest)).await
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.loader.abort();
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.current.load().values().map(|serving| &serving.backend))
            .finish()
    }
}

fn unaccepted_list(waiting: &UnacceptedFiles) -> Vec<(PathBuf, Arc<RequestedCapabilities>)> {
    let waiting = waiting.lock();
    waiting.iter().map(|(path, wants)| (path.clone(), wants.clone())).collect()
}
