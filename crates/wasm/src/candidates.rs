//! The admitted components of every backend, and the selection of the one that serves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::choice::{ComponentChoice, Contender, choose};
use super::component::ComponentBackend;
use super::instance::Blueprint;
use super::trust_state::TrustState;
use aetheel_model::agent::Descriptor;
use aetheel_recording::{Backend as _, Generation};

/// The current generation of every backend. Only the loader replaces it. Readers never wait.
pub(super) type Current = ArcSwap<BTreeMap<String, ServingBackend>>;

/// The known versions of the installed agents, by backend.
pub(super) type AgentVersions = Mutex<BTreeMap<String, String>>;

#[derive(Clone)]
pub(super) struct ServingBackend {
    pub(super) backend: Arc<ComponentBackend>,
    pub(super) info: Arc<ServingInfo>,
}

/// The origin of the component that serves, and the reason for its selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingInfo {
    /// The file that it was loaded from.
    pub path: PathBuf,
    /// The reason why it was admitted.
    pub trust: TrustState,
    /// The reason why it was selected, or `None` if there is no other component.
    pub why: Option<String>,
    /// Whether it may be the wrong one, because no component is made for the installed agent or the
    /// agent's version is not known.
    pub doubtful: bool,
    /// The components that could serve instead.
    pub alternatives: Vec<Alternative>,
    /// Whether the file is refused and a kept component serves in its place.
    pub is_fallback: bool,
}

/// A component that could serve instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The file that it was loaded from.
    pub path: PathBuf,
    /// The version in its descriptor.
    pub version: String,
    /// The agent versions that it is made for.
    pub understands: Vec<String>,
}

/// A component that passed admission and may serve, with the file that it came from.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) digest: String,
    pub(super) descriptor: Descriptor,
    pub(super) blueprint: Arc<Blueprint>,
    pub(super) trust: TrustState,
    /// When its file was written; see [`Contender`].
    pub(super) written: (i64, i64),
    /// Whether it is a kept component that serves in place of its refused file.
    pub(super) is_fallback: bool,
}

/// The components on rollout, by backend. Only the loader replaces them. Readers never wait.
pub(super) type Successors = ArcSwap<BTreeMap<String, Successor>>;

#[derive(Clone)]
pub(super) struct Successor {
    pub(super) candidate: Candidate,
    /// The generation that serves some lanes before it is promoted.
    pub(super) backend: Arc<ComponentBackend>,
}

pub(super) struct Candidates {
    by_file: BTreeMap<PathBuf, Candidate>,
    current: Arc<Current>,
    successors: Arc<Successors>,
    agents: Arc<AgentVersions>,
}

impl Candidates {
    pub(super) fn new(
        current: Arc<Current>,
        successors: Arc<Successors>,
        agents: Arc<AgentVersions>,
    ) -> Self {
        Self { by_file: BTreeMap::new(), current, successors, agents }
    }

    pub(super) fn agent_version(&self, name: &str) -> Option<String> {
        self.agents.lock().get(name).cloned()
    }

    pub(super) fn successor(&self, name: &str) -> Option<Candidate> {
        self.successors.load().get(name).map(|successor| successor.candidate.clone())
    }

    pub(super) fn successor_of_file(&self, path: &Path) -> Option<Candidate> {
        let all = self.successors.load();
        let mut candidates = all.values().map(|successor| &successor.candidate);
        candidates.find(|candidate| candidate.path == path).cloned()
    }

    /// Returns the name of each backend with a component on rollout, and the component's digest.
    pub(super) fn successors(&self) -> Vec<(String, String)> {
        let all = self.successors.load();
        let digest = |successor: &Successor| successor.candidate.digest.clone();
        all.iter().map(|(name, successor)| (name.clone(), digest(successor))).collect()
    }

    /// Makes a component the one on rollout of its backend.
    pub(super) fn set_successor(&self, candidate: Candidate) {
        let name = candidate.descriptor.name.clone();
        let serving = self.serving(&name).map_or(0, |it| it.backend.generation().number);
        // Its promotion gives it the same number, so that its links continue.
        let generation = Generation { number: serving + 1, digest: candidate.digest.clone() };
        let backend = ComponentBackend::new(
            candidate.descriptor.clone(),
            generation,
            candidate.blueprint.clone(),
        );
        let mut next = BTreeMap::clone(&self.successors.load());
        next.insert(name, Successor { candidate, backend: Arc::new(backend.on_rollout()) });
        self.successors.store(Arc::new(next));
    }

    pub(super) fn drop_successor(&self, name: &str) {
        let mut next = BTreeMap::clone(&self.successors.load());
        next.remove(name);
        self.successors.store(Arc::new(next));
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.current.load().keys().cloned().collect()
    }

    pub(super) fn serving(&self, name: &str) -> Option<ServingBackend> {
        self.current.load().get(name).cloned()
    }

    pub(super) fn serving_from(&self, path: &Path) -> Option<(String, ServingBackend)> {
        let current = self.current.load();
        current
            .iter()
            .find(|(_, serving)| serving.info.path == path)
            .map(|(name, serving)| (name.clone(), serving.clone()))
    }

    pub(super) fn of_file(&self, path: &Path) -> Option<&Candidate> {
        self.by_file.get(path)
    }

    /// Returns the candidates with a name, ordered by path.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = &Candidate> {
        self.by_file.values().filter(move |candidate| candidate.descriptor.name == name)
    }

    /// Adds a candidate, and returns the previous candidate of the same file.
    pub(super) fn insert(&mut self, candidate: Candidate) -> Option<Candidate> {
        self.by_file.insert(candidate.path.clone(), candidate)
    }

    pub(super) fn remove(&mut self, path: &Path) -> Option<Candidate> {
        self.by_file.remove(path)
    }

    /// Returns the candidate that would serve if `newcomer` was added, and the reason.
    pub(super) fn would_serve(&self, newcomer: &Candidate) -> (Candidate, Option<String>) {
        let others =
            self.of(&newcomer.descriptor.name).filter(|candidate| candidate.path != newcomer.path);
        let all: Vec<&Candidate> = others.chain([newcomer]).collect();
        match self.choose(&newcomer.descriptor.name, &all) {
            Some(choice) => (all[choice.index].clone(), choice.why),
            None => (newcomer.clone(), None),
        }
    }

    /// Makes the best candidate of a name serve. Returns the generation if it is a new one. If
    /// there is no candidate, nothing changes.
    pub(super) fn serve_best(&self, name: &str) -> Option<Generation> {
        let all: Vec<&Candidate> = self.of(name).collect();
        let choice = self.choose(name, &all)?;
        let candidate = all[choice.index];
        let before = self.current.load_full();
        let previous = before.get(name);
        let chosen = Arc::new(ServingInfo {
            path: candidate.path.clone(),
            trust: candidate.trust.clone(),
            why: choice.why,
            doubtful: choice.doubtful,
            is_fallback: candidate.is_fallback,
            alternatives: all
                .iter()
                .filter(|other| other.path != candidate.path)
                .map(|other| Alternative {
                    path: other.path.clone(),
                    version: other.descriptor.version.clone(),
                    understands: other.descriptor.understands.clone(),
                })
                .collect(),
        });
        if let (Some(why), true) =
            (&chosen.why, previous.is_none_or(|previous| previous.info.why != chosen.why))
        {
            let (path, version) = (candidate.path.display(), &candidate.descriptor.version);
            let asked = self.agents.lock().contains_key(name);
            if !asked {
                tracing::debug!(backend = name, %path, version, "selected this file among several until the agent's version is known");
            } else if chosen.doubtful {
                tracing::warn!(backend = name, %path, version, "selected this file among several: {why}; hint: add one made for it, or remove the others");
            } else {
                tracing::info!(backend = name, %path, version, "selected this file among several: {why}");
            }
        }
        let same =
            previous.filter(|previous| previous.backend.generation().digest == candidate.digest);
        let (backend, new) = match same {
            Some(previous) => (previous.backend.clone(), None),
            None => {
                let number =
                    previous.map_or(1, |previous| previous.backend.generation().number + 1);
                let generation = Generation { number, digest: candidate.digest.clone() };
                let backend = ComponentBackend::new(
                    candidate.descriptor.clone(),
                    generation.clone(),
                    candidate.blueprint.clone(),
                );
                (Arc::new(backend), Some(generation))
            }
        };
        let mut next = BTreeMap::clone(&before);
        next.insert(name.to_owned(), ServingBackend { backend, info: chosen });
        self.current.store(Arc::new(next));
        new
    }

    fn choose(&self, name: &str, all: &[&Candidate]) -> Option<ComponentChoice> {
        let agents = self.agents.lock();
        let contenders: Vec<Contender<'_>> = all
            .iter()
            .map(|candidate| Contender {
                descriptor: &candidate.descriptor,
                written: candidate.written,
            })
            .collect();
        choose(&contenders, agents.get(name).map(String::as_str))
    }
}
