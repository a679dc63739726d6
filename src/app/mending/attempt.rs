//! One attempt to mend a backend, and the installation of its result.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agents::AgentRegistry;
use crate::kit_program::{self, KitProgramError};
use crate::startup::{InstallError, Installer, confinement, host_of};
use aetheel_mending::agent::MendingAgent;
use aetheel_mending::evidence::{self, EvidencePlaces};
use aetheel_mending::workshop::{Workshop, WorkshopError};
use aetheel_mending::{MendError, MendLimits, MendedBackend, Mending};
use aetheel_model::plain::{counted, short_line, with_causes};
use aetheel_model::redact::Redactor;
use aetheel_model::rollout::Rollout;
use aetheel_process::Custody;
use aetheel_recording::case::CaseError;
use aetheel_recording::{Backend, Recorder};
use aetheel_settings::Config;
use aetheel_store::workspace::{
    Components, MendingNote, MendingState, ServedComponent, Workspace, component_digest,
};
use aetheel_turn::{Backends as _, VersionError};
use aetheel_wasm::{AdmissionError, Engine};

/// The limits of an attempt that nobody started.
const ROUNDS: u32 = 3;
const TIME: Duration = Duration::from_secs(60 * 60);
const MUTANTS: usize = 400;
/// How long a new version may take to be loaded before it is promoted.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);
const LOAD_POLL: Duration = Duration::from_millis(200);

/// The reason why an attempt failed, or a changed version cannot be installed. The texts are for
/// operators.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    #[error("BACKEND_SOURCES is not set")]
    NoSources,
    #[error("the file of the serving version is gone")]
    NoFile,
    #[error("there are no cases and no readable recordings of it")]
    NoCases,
    /// There is no backend with this name.
    #[error("there is no backend `{0}`; set BACKEND_MEND_WITH")]
    NoAgent(String),
    #[error("the component {}", with_causes(.0))]
    Admission(#[from] AdmissionError),
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error(transparent)]
    Workshop(#[from] WorkshopError),
    #[error(transparent)]
    Mend(#[from] MendError),
    #[error(transparent)]
    Kit(#[from] KitProgramError),
    #[error("the file of the changed version: {0}")]
    File(#[from] io::Error),
    #[error("its file in state/mended was changed")]
    Changed,
    #[error("it needs permissions that were not accepted")]
    Permissions,
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(transparent)]
    Promotion(#[from] VersionError),
    #[error("it was not loaded in time")]
    NotLoaded,
}

/// The parts of the gateway that mending needs.
pub(in crate::app) struct MendingParts {
    pub(in crate::app) config: Config,
    pub(in crate::app) variables: HashMap<String, String>,
    pub(in crate::app) workspace: Workspace,
    pub(in crate::app) agents: Arc<AgentRegistry>,
    pub(in crate::app) custody: Custody,
    pub(in crate::app) installer: Installer,
    pub(in crate::app) recorder: Recorder,
    pub(in crate::app) redactor: Redactor,
}

impl MendingParts {
    /// Returns whether a new version is observed before it serves.
    pub(super) fn holds_back(&self) -> bool {
        self.config.backend_rollout != Rollout::Now
    }

    pub(super) fn serving_digest(&self, backend: &str) -> Option<String> {
        Some(self.agents.get(backend)?.generation().digest.clone())
    }

    /// Saves an attempt. An error is logged.
    pub(super) async fn save(&self, note: MendingNote) {
        if let Err(error) = self.workspace.state.mending.save(note).await {
            tracing::error!(error = %with_causes(&error), "cannot save state/mending.md");
        }
    }

    /// Returns the difference of a backend's sources.
    pub(super) async fn difference(&self, backend: &str) -> String {
        let file = MendingNote::difference_file(self.workspace.folder(), backend);
        let read = tokio::task::spawn_blocking(move || fs::read_to_string(file).ok()).await;
        read.ok().flatten().unwrap_or_default()
    }

    /// Lets the operator's agent mend a backend, and saves the result.
    pub(super) async fn mend(&self, backend: &str) {
        let Some(serving) = self.serving_digest(backend) else { return };
        let mut note = MendingNote {
            backend: backend.to_owned(),
            state: MendingState::Running,
            serving,
            component: String::new(),
            rounds: 0,
            cents: 0,
            remark: "the agent works".to_owned(),
        };
        self.save(note.clone()).await;
        tracing::warn!(backend, "an agent mends a backend that lost replies (BACKEND_MEND)");
        match self.attempt(backend, &note.serving).await {
            Ok(mended) => {
                let (replies, cases) = (mended.judgement.replies.len(), mended.judgement.cases);
                note.state = MendingState::Ready;
                note.component = component_digest(&mended.component);
                note.rounds = u32::try_from(mended.rounds.len()).unwrap_or(u32::MAX);
                note.cents = cents_of(mended.cost_usd());
                note.remark = format!(
                    "{}, and {} as before",
                    counted(replies, "lost turn"),
                    counted(cases, "case")
                );
                tracing::warn!(
                    backend,
                    component = note.component,
                    "a backend was mended; an owner decides about the change"
                );
            }
            Err(reason) => {
                note.state = MendingState::Failed;
                note.remark = short_line(&self.redactor.redact(reason.to_string()), 300);
                tracing::error!(
                    backend,
                    reason = note.remark,
                    "a backend could not be mended; hint: `aetheel backend mend {backend}` tries it again"
                );
            }
        }
        self.save(note).await;
    }

    async fn attempt(&self, backend: &str, serving: &str) -> Result<MendedBackend, AttemptError> {
        let source = self.config.backend_sources.clone().ok_or(AttemptError::NoSources)?;
        let engine: Engine = self.installer.engine();
        let path = self.component_file(backend, serving).await.ok_or(AttemptError::NoFile)?;
        let (found, opened) = engine.open(&path).await?;
        let serving: Arc<dyn Backend> = Arc::new(opened);
        let mut lost = self.workspace.state.lost.all().await;
        lost.retain(|turn| self.agents.component_of(&turn.backend) == backend);
        let places = EvidencePlaces {
            cases: evidence::usual_cases(
                &self.config.backends_dir.join(format!("{backend}.wasm")),
                &source,
                backend,
            ),
            recordings: self.config.recordings_dir.clone(),
            lost,
            named: Vec::new(),
        };
        let evidence = evidence::collect(&*serving, places).await?;
        if evidence.cases.is_empty() {
            return Err(AttemptError::NoCases);
        }
        let sandbox = self.custody.sandbox();
        let hidden = confinement::fence(&self.config, sandbox).map(|fence| fence.hidden);
        let workshop = Workshop::open(
            self.custody.clone(),
            hidden.unwrap_or_default(),
            &self.variables,
            (&source, backend),
            &[],
        );
        let workshop = workshop.await?;
        let limits = MendLimits {
            rounds: ROUNDS,
            time: TIME,
            cost_usd: Some(f64::from(self.config.backend_mend_usd)),
            mutants: MUTANTS,
        };
        let name = self.config.backend_mend_with.as_ref().unwrap_or(&self.config.agent_backend);
        let agent = MendingAgent {
            backend: self.agents.get(name).ok_or_else(|| AttemptError::NoAgent(name.clone()))?,
            host: host_of(&self.config, &self.variables, &self.agents, sandbox),
            launcher: Arc::new(self.custody.clone()),
            recorder: self.recorder.clone(),
            model: None,
        };
        let imports = found.imports;
        let program = kit_program::find()?;
        let mending = Mending { serving, imports, workshop, engine, evidence, limits, program };
        let mended = mending
            .run(&agent, |round, refused| {
                tracing::info!(backend, recording = round.recording, ending = round.ending, reasons = ?refused.0, "a change of a backend was refused");
            })
            .await?;
        let folder = self.workspace.folder();
        aetheel_mending::store(
            &mended,
            &MendingNote::component_file(folder, backend),
            &MendingNote::difference_file(folder, backend),
        )?;
        Ok(mended)
    }

    /// Finds the file of a component: among the backends, or those that served.
    async fn component_file(&self, backend: &str, digest: &str) -> Option<PathBuf> {
        let (folder, kept) =
            (self.config.backends_dir.clone(), Components::new(&self.config.config_dir));
        let (backend, digest) = (backend.to_owned(), digest.to_owned());
        let find = move || {
            let files = fs::read_dir(folder).into_iter().flatten().flatten();
            let mut files = files.map(|file| file.path()).filter(|path| path.is_file());
            let same = |path: &PathBuf| {
                path.extension().is_some_and(|end| end == "wasm")
                    && fs::read(path).is_ok_and(|bytes| component_digest(&bytes) == digest)
            };
            files.find(same).or_else(|| kept.file(&backend, &digest))
        };
        tokio::task::spawn_blocking(find).await.ok()?
    }

    /// Installs a changed version. With `serves`, also ends its rollout, so that it serves at once.
    pub(super) async fn install(
        &self,
        note: &MendingNote,
        serves: bool,
    ) -> Result<(), AttemptError> {
        let backend = note.backend.as_str();
        let file = MendingNote::component_file(self.workspace.folder(), backend);
        let path = file.clone();
        let read = tokio::task::spawn_blocking(move || fs::read(path)).await;
        let bytes = read.map_err(io::Error::other)??;
        if component_digest(&bytes) != note.component {
            return Err(AttemptError::Changed);
        }
        let component = ServedComponent {
            digest: note.component.clone(),
            bytes: bytes.into(),
            signature: None,
        };
        let name = format!("{backend}.wasm");
        let staged = self.installer.stage(&name, component).await;
        let staged = staged?;
        let plan = self.installer.plan(staged, std::path::Path::new(&name)).await;
        if plan.wants.is_some() {
            return Err(AttemptError::Permissions);
        }
        plan.staged.try_in_place(&plan.target).await?;
        let prepared = self.installer.prepare(&plan).await?;
        prepared.finish(plan.aside.clone()).await?;
        if serves && self.holds_back() {
            return self.promote(backend, &note.component).await;
        }
        Ok(())
    }

    /// Promotes a version as soon as it is on rollout.
    async fn promote(&self, backend: &str, component: &str) -> Result<(), AttemptError> {
        let promoted = async {
            let mut look = tokio::time::interval(LOAD_POLL);
            loop {
                look.tick().await;
                if self.serving_digest(backend).as_deref() == Some(component) {
                    return Ok(());
                }
                if self
                    .agents
                    .rollout(backend)
                    .is_some_and(|pair| pair.successor.generation().digest == component)
                {
                    return self.agents.promote(backend, component).await.map(drop);
                }
            }
        };
        match tokio::time::timeout(LOAD_TIMEOUT, promoted).await {
            Ok(promoted) => promoted.map_err(AttemptError::Promotion),
            Err(_) => Err(AttemptError::NotLoaded),
        }
    }
}

fn cents_of(cost_usd: Option<f64>) -> u32 {
    // A cost is never negative, and saturates.
    (cost_usd.unwrap_or(0.0) * 100.0).round() as u32
}
