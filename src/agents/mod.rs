//! The backends as the operator configured them: which exist, how they run, and whether their
//! agents work on this machine.
//!
//! [`AgentRegistry`] builds a backend from a loaded component and the operator's configuration. A
//! launch profile in `acp.md` makes a backend for one agent from the component that declares
//! profiles in its descriptor (for agents that speak the Agent Client Protocol, ACP). An account in
//! `backends.md` makes a backend with other credentials from the component of another. A backend
//! runs *live* (one process for many turns) or *once a turn* (one process for each turn). The
//! registry examines every agent, and again when its component, profile or program changes. It does
//! not load components or start turns. Tested by `tests/gateway/backends.rs`.

pub mod acceptance;
mod accounts;
pub mod auto;
mod configured;
mod examination;
pub mod findings;
mod follow;
mod options;
mod programs;
mod provider;
mod sign_in;
mod version;
mod warnings;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::broadcast;

use aetheel_recording::Backend;
use aetheel_store::workspace::{
    Account, FileError, LiveFolder, Profile, ProfileFile, RolloutNote, StateFile,
};
use aetheel_turn::{Agents, Backends as _};
use aetheel_wasm::{LoadReport, Registry};
use configured::{ConfiguredBackend, OperatorChoice};
use findings::{Examiner, Findings, ProgramLocation};
use options::OptionChoices;
use programs::Programs;

/// The backends of this gateway, from components and profiles, with the findings about their
/// agents.
pub struct AgentRegistry {
    components: Arc<Registry>,
    examiner: Examiner,
    /// The examined agents, shared with the code that starts agents.
    agents: Agents,
    file: ProfileFile,
    options: OptionChoices,
    /// The backend of lanes that have not chosen one. Unset until it is determined.
    default: OnceLock<String>,
    state: RwLock<RegistryState>,
    programs: Programs,
}

#[derive(Default)]
struct RegistryState {
    profiles: BTreeMap<String, Arc<RevisedProfile>>,
    /// Warnings about `acp.md`, one line each.
    warnings: Vec<String>,
    findings: BTreeMap<String, Arc<Findings>>,
}

/// A component, and the backend that is made of it.
type VariedComponent = (Arc<dyn Backend>, BackendVariant);

/// The operator's choice that makes one of several backends of a component.
#[derive(Clone)]
enum BackendVariant {
    /// The backend of the component itself.
    Plain,
    Profile(Arc<RevisedProfile>),
    /// An account, with the number of its changes since the start.
    Account(Account, u32),
}

struct RevisedProfile {
    profile: Profile,
    /// Number of changes of the profile since the start.
    revision: u32,
}

impl AgentRegistry {
    /// Combines the loaded components with the launch profiles of the configuration folder.
    /// Examines no agent yet.
    ///
    /// # Errors
    /// Returns [`FileError`] if `acp.md` or `backends.md` exists but cannot be read.
    pub async fn new(
        components: Arc<Registry>,
        examiner: Examiner,
    ) -> Result<Arc<Self>, FileError> {
        let file = ProfileFile::new(&examiner.config.config_dir);
        let options = OptionChoices::new(&examiner.config.config_dir);
        file.require().await?;
        options.require().await?;
        let (agents, default, known) = (Agents::default(), OnceLock::new(), RwLock::default());
        let registry = Arc::new(Self {
            components,
            examiner,
            agents,
            file,
            options,
            default,
            state: known,
            programs: Programs::default(),
        });
        registry.read_profiles().await;
        registry.read_options().await;
        Ok(registry)
    }

    /// Sets the backend of lanes that have not chosen one. Later calls have no effect.
    pub fn set_default(&self, default: &str) {
        let _ = self.default.set(default.to_owned());
    }

    /// Returns the examined agents. Clones share their content.
    pub fn agents(&self) -> Agents {
        self.agents.clone()
    }

    /// Saves each serving component from now on, for rollbacks.
    pub fn keep_components(&self) {
        self.components.keep();
    }

    /// Serves versions in development from now on, each in its channel.
    pub fn follow_live(&self) {
        self.components.partial().follow_live(LiveFolder::new(&self.examiner.config.config_dir));
    }

    /// Returns the saved rollouts of new versions. Blocks briefly. They are empty if the file cannot
    /// be read.
    pub fn rollout_notes(&self) -> Vec<RolloutNote> {
        StateFile::<RolloutNote>::read_folder(&self.examiner.config.config_dir).unwrap_or_default()
    }

    /// Returns the warnings about `acp.md`, one line each.
    pub fn warnings(&self) -> Vec<String> {
        self.read().warnings.clone()
    }

    /// Returns whether a profile has this name, even if the component for profiles is missing.
    pub fn is_profile(&self, name: &str) -> bool {
        self.read().profiles.contains_key(name)
    }

    /// Returns whether launch profiles make backends of this component, which then has no agent of
    /// its own.
    pub fn takes_profiles(&self, component: &str) -> bool {
        self.components.get(component).is_some_and(|it| it.descriptor().takes_profiles())
    }

    /// Returns the component that launch profiles use: the first that serves, or else the first
    /// that waits for approval.
    fn profiled(&self) -> Option<String> {
        let serving = self.components.names().into_iter().find(|name| self.takes_profiles(name));
        serving.or_else(|| {
            let waiting = self.unapproved();
            let mut waiting = waiting.iter().map(|(_, wants)| &wants.descriptor);
            waiting.find(|it| it.takes_profiles()).map(|it| it.name.clone())
        })
    }

    /// Returns the name of a backend's component.
    pub fn component_of(&self, name: &str) -> String {
        let component = match self.variant(name) {
            BackendVariant::Plain => None,
            BackendVariant::Profile(_) => self.profiled(),
            BackendVariant::Account(account, _) => Some(account.of),
        };
        component.unwrap_or_else(|| name.to_owned())
    }

    /// Subscribes to the reports about loads of components.
    pub fn load_reports(&self) -> broadcast::Receiver<LoadReport> {
        self.components.subscribe()
    }

    /// Returns the names of the backends that use a component.
    pub fn backends_of(&self, component: &str) -> Vec<String> {
        self.names().into_iter().filter(|name| self.component_of(name) == component).collect()
    }

    /// Returns the findings of the last examination of a backend's agent.
    pub fn findings(&self, name: &str) -> Option<Arc<Findings>> {
        self.read().findings.get(name).cloned()
    }

    /// Reads the profiles again if their file changed. Returns the names of the changed profiles.
    async fn read_profiles(&self) -> Vec<String> {
        let (read, changed) = self.file.refresh().await;
        if !changed {
            return Vec::new();
        }
        let mut warnings = read.warnings.clone();
        let mut known = self.write();
        let mut profiles = BTreeMap::new();
        let mut news = Vec::new();
        for (name, profile) in &read.all {
            if !self.takes_profiles(name) && self.components.get(name).is_some() {
                warnings.push(format!(
                    "acp.md: profile `{name}` is left out: a backend has the same name"
                ));
                continue;
            }
            let kept = match known.profiles.get(name) {
                Some(kept) if kept.profile == *profile => kept.clone(),
                before => {
                    news.push(name.clone());
                    let revision = before.map_or(0, |kept| kept.revision + 1);
                    Arc::new(RevisedProfile { profile: profile.clone(), revision })
                }
            };
            profiles.insert(name.clone(), kept);
        }
        for warning in warnings.iter().filter(|warning| !known.warnings.contains(warning)) {
            tracing::warn!("{warning}");
        }
        let before = std::mem::replace(&mut known.profiles, profiles);
        for gone in before.into_keys().filter(|name| !read.all.contains_key(name)) {
            known.findings.remove(&gone);
        }
        known.warnings = warnings;
        news
    }

    /// Reads the options of backends again if their file changed, and logs warnings about options
    /// that are ignored.
    async fn read_options(&self) {
        if self.options.refresh().await {
            for fault in self.option_warnings() {
                tracing::warn!("{fault}");
            }
        }
    }

    /// Returns the component of a backend, and the choice that makes this backend of it.
    fn base(&self, name: &str) -> Option<VariedComponent> {
        let variant = self.variant(name);
        let component = self.components.get(&self.component_of(name))?;
        let is_complete = match &variant {
            BackendVariant::Profile(_) => true,
            _ => !component.descriptor().takes_profiles(),
        };
        is_complete.then_some((component, variant))
    }

    /// Builds a backend from a component, with the operator's choices for it.
    fn build(
        &self,
        name: &str,
        inner: Arc<dyn Backend>,
        variant: &BackendVariant,
    ) -> Option<Arc<dyn Backend>> {
        let wanted = match variant {
            BackendVariant::Account(account, _) => self.run_of_account(account, inner.descriptor()),
            _ => self.wanted_run(name, inner.descriptor()),
        };
        let (run, _) = configured::resolve_run(name, inner.descriptor(), wanted);
        let with = match variant {
            BackendVariant::Profile(kept) => OperatorChoice::Profile(&kept.profile, kept.revision),
            BackendVariant::Account(account, revision) => {
                let options = self.options.of(inner.descriptor());
                // Each change of the options is another generation, too.
                let changes = options.as_ref().map_or(0, |(_, changes)| *changes);
                let options = options.map(|(options, _)| options);
                OperatorChoice::Account(account, options, revision + changes)
            }
            BackendVariant::Plain => self
                .options
                .of(inner.descriptor())
                .map_or(OperatorChoice::Nothing, |(options, revision)| {
                    OperatorChoice::Options(options, revision)
                }),
        };
        match ConfiguredBackend::of(inner, run, with) {
            Ok(backend) => Some(backend),
            Err(error) => {
                tracing::error!(backend = name, %error, "the profile or the account does not fit the backend");
                None
            }
        }
    }

    /// Builds a backend from a component that replaces its own.
    fn build_replacement(
        &self,
        name: &str,
        component: Arc<dyn Backend>,
    ) -> Option<Arc<dyn Backend>> {
        let variant = self.variant(name);
        // A version that takes profiles replaces only one that does.
        let is_profile = matches!(variant, BackendVariant::Profile(_));
        let fits = component.descriptor().takes_profiles() == is_profile;
        fits.then(|| self.build(name, component, &variant))?
    }

    /// Returns the operator's choice that makes a backend of this name.
    fn variant(&self, name: &str) -> BackendVariant {
        if let Some(profile) = self.profile(name) {
            return BackendVariant::Profile(profile);
        }
        let account = self.account(name);
        account.map_or(BackendVariant::Plain, |(account, changes)| {
            BackendVariant::Account(account, changes)
        })
    }

    /// Returns the profile with this name, unless a component has the same name.
    fn profile(&self, name: &str) -> Option<Arc<RevisedProfile>> {
        let free = self.takes_profiles(name) || self.components.get(name).is_none();
        self.read().profiles.get(name).filter(|_| free).cloned()
    }

    fn program_location(&self, name: &str) -> ProgramLocation {
        let account = self.account(name).map(|(account, _)| account.of);
        let name = account.as_deref().unwrap_or(name);
        let default = self.default.get().is_some_and(|default| default == name);
        let home = self.examiner.variables.get("HOME").map(String::as_str);
        let profile = self.profile(name);
        let operators = self.examiner.config.backend_cli_path.clone().filter(|_| default);
        ProgramLocation {
            path: operators.or_else(|| profile.as_ref()?.profile.program_path(home)),
            hint: if default {
                Some("set BACKEND_CLI_PATH")
            } else {
                profile.map(|_| "give its path in acp.md")
            },
            default,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, RegistryState> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, RegistryState> {
        self.state.write()
    }
}

/// Returns whether the agent of a backend is this program, as for the scripted agent of `demo`.
/// Such a backend is used only if it is named.
pub fn is_demo(backend: &dyn Backend) -> bool {
    backend
        .descriptor()
        .programs
        .first()
        .is_some_and(|program| program.name == env!("CARGO_PKG_NAME"))
}
