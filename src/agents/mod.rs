//! The backends as the operator set them up: which there are, how they run, and whether they can
//! work here.
//!
//! Stands between the loaded components and whoever asks for a backend. It makes one backend a
//! launch profile of the component for ACP agents, has an agent run live or once a turn, and looks
//! at every agent, again when a component or a profile comes. It loads no component and starts no
//! turn. Pinned by `tests/gateway/backends.rs`.

pub mod acceptance;
pub mod auto;
mod examination;
pub mod findings;
mod options;
mod programs;
mod sign_in;
mod variant;
mod warnings;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinSet;

use crate::backend::{LoadReport, Registry};
use crate::dispatch::{Notice, Outlet};
use crate::turn::{Agents, Backend, Backends, Generation, KnownComponent};
use crate::workspace::{FileError, Profile, ProfileFile};
use findings::{Examiner, Findings, Place};
use options::Options;
use programs::Programs;
use variant::{Variant, With};

/// The component that many agents are understood by; it has no agent of its own.
pub const PROFILED: &str = "acp";

/// How often the file of profiles and the agents' programs are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The backends of this gateway, components and profiles, each with what is known of its agent.
pub struct AgentRegistry {
    components: Arc<Registry>,
    examiner: Examiner,
    /// Shared with those who start agents.
    agents: Agents,
    file: ProfileFile,
    options: Options,
    /// The backend of lanes without a choice, once it is decided.
    default: OnceLock<String>,
    known: RwLock<Known>,
    programs: Programs,
}

#[derive(Default)]
struct Known {
    profiles: BTreeMap<String, Arc<Kept>>,
    /// The parts of the file of profiles that were left out, one line each.
    warnings: Vec<String>,
    findings: BTreeMap<String, Arc<Findings>>,
}

/// A component, and the profile it runs with.
type Base = (Arc<dyn Backend>, Option<Arc<Kept>>);

struct Kept {
    profile: Profile,
    /// Counts how often it was another one.
    revision: u32,
}

impl AgentRegistry {
    /// Combines the loaded components with the launch profiles of the configuration folder.
    /// Examines no agent yet.
    ///
    /// # Errors
    /// [`FileError`] if `acp.md` or `backends.md` exists but cannot be read.
    pub async fn new(
        components: Arc<Registry>,
        examiner: Examiner,
    ) -> Result<Arc<Self>, FileError> {
        let file = ProfileFile::new(&examiner.config.config_dir);
        let options = Options::new(&examiner.config.config_dir);
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
            known,
            programs: Programs::default(),
        });
        registry.read_profiles().await;
        registry.read_options().await;
        Ok(registry)
    }

    /// Says which backend answers where nothing else was chosen. Counts once.
    pub fn decide(&self, default: &str) {
        let _ = self.default.set(default.to_owned());
    }

    /// The current findings about all agents, shared.
    pub fn agents(&self) -> Agents {
        self.agents.clone()
    }

    /// Has components that serve be kept from now on, for rollbacks.
    pub fn keep_components(&self) {
        self.components.keep();
    }

    /// The parts of the file of profiles that were left out, one line each.
    pub fn warnings(&self) -> Vec<String> {
        self.read().warnings.clone()
    }

    /// Whether a name is that of a profile, whether or not there is the component for it.
    pub fn is_profile(&self, name: &str) -> bool {
        self.read().profiles.contains_key(name)
    }

    /// The component that understands a backend's agent.
    pub fn component_of(&self, name: &str) -> String {
        (if self.profile(name).is_some() { PROFILED } else { name }).to_owned()
    }

    /// The news about components from now on.
    pub fn news(&self) -> broadcast::Receiver<LoadReport> {
        self.components.subscribe()
    }

    /// The backends whose agents a component understands.
    pub fn served_by(&self, component: &str) -> Vec<String> {
        self.names().into_iter().filter(|name| self.component_of(name) == component).collect()
    }

    /// The findings about a backend's agent when it was last looked at.
    pub fn findings(&self, name: &str) -> Option<Arc<Findings>> {
        self.read().findings.get(name).cloned()
    }

    /// Examines all agents not examined yet, side by side.
    pub async fn examine_others(self: &Arc<Self>) {
        let mut examinations = JoinSet::new();
        for name in self.names().into_iter().filter(|name| self.findings(name).is_none()) {
            let agents = self.clone();
            examinations
                .spawn(async move { agents.examine(&name).await.map(|findings| (name, findings)) });
        }
        while let Some(examined) = examinations.join_next().await {
            if let Ok(Some((name, findings))) = examined {
                self.log_findings(&name, &findings, true);
            }
        }
    }

    /// Follows what comes, for ever: examines what was not examined yet, then components, profiles
    /// and agents as they change. The operator is told of agents that are others by now.
    pub async fn follow(self: Arc<Self>, outlet: Arc<dyn Outlet>) {
        let mut reports = self.components.subscribe();
        self.examine_others().await;
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        loop {
            tokio::select! {
                report = reports.recv() => match report {
                    Ok(LoadReport::Loaded { name, .. }) if name == PROFILED => {
                        let profiles: Vec<String> = self.read().profiles.keys().cloned().collect();
                        self.examine_again(profiles).await;
                    }
                    Ok(LoadReport::Loaded { name, .. }) => self.examine_again(vec![name]).await,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => self.examine_others().await,
                    Err(RecvError::Closed) => return,
                },
                _ = look.tick() => {
                    let changed = self.read_profiles().await;
                    self.read_options().await;
                    self.examine_again(changed).await;
                    for name in self.programs.changed(SystemTime::now()) {
                        self.agent_changed(name, &*outlet).await;
                    }
                }
            }
        }
    }

    async fn examine_again(&self, names: Vec<String>) {
        for name in names {
            if let Some(findings) = self.examine(&name).await {
                self.log_findings(&name, &findings, false);
            }
        }
    }

    async fn agent_changed(&self, name: String, outlet: &dyn Outlet) {
        let version = || self.findings(&name)?.version.clone();
        let was = version();
        self.examine_again(vec![name.clone()]).await;
        if let (Some(was), Some(now), Some(backend)) = (was, version(), self.get(&name))
            && was != now
        {
            let component = &backend.descriptor().version;
            let text = format!(
                "The agent of `{name}` is now version {now} (was {was}); version {component} of the backend reads it."
            );
            // Without a channel for it the log says it.
            let _ = outlet.notify(Notice { channel: None, about: None, text, offer: None }).await;
        }
    }

    /// Logs what was found out about an agent. At the start, one that is not installed is not worth
    /// more than a line for debugging: there are backends for many more agents than anybody has.
    fn log_findings(&self, name: &str, findings: &Findings, at_start: bool) {
        let program = findings.program.as_deref().map(Path::display).map(tracing::field::display);
        let reason = findings.reasons();
        if findings.faults.is_empty() {
            tracing::info!(backend = name, program, version = findings.version, "backend is ready");
            findings.warnings.iter().for_each(|text| tracing::info!(backend = name, "{text}"));
        } else if self.is_profile(name) || at_start && findings.program.is_none() {
            tracing::debug!(backend = name, reason, "backend is not available");
        } else {
            tracing::info!(backend = name, reason, "backend is not available");
        }
    }

    /// Reads the profiles again if their file changed; returns the names of those that did.
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
            if name != PROFILED && self.components.get(name).is_some() {
                warnings.push(format!(
                    "acp.md: profile `{name}` is left out: there is a backend of that name"
                ));
                continue;
            }
            let kept = match known.profiles.get(name) {
                Some(kept) if kept.profile == *profile => kept.clone(),
                before => {
                    news.push(name.clone());
                    let revision = before.map_or(0, |kept| kept.revision + 1);
                    Arc::new(Kept { profile: profile.clone(), revision })
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

    /// Reads the chosen options of backends again if they changed, and logs what of them is left
    /// out.
    async fn read_options(&self) {
        if self.options.refresh().await {
            for fault in self.option_warnings() {
                tracing::warn!("{fault}");
            }
        }
    }

    /// The component behind a name, and the profile it runs with.
    fn base(&self, name: &str) -> Option<Base> {
        if let Some(profile) = self.profile(name) {
            return Some((self.components.get(PROFILED)?, Some(profile)));
        }
        self.components.get(name).filter(|_| name != PROFILED).map(|backend| (backend, None))
    }

    /// The backend of a name as it runs here, made of a component.
    fn made_of(
        &self,
        name: &str,
        inner: Arc<dyn Backend>,
        profile: Option<Arc<Kept>>,
    ) -> Option<Arc<dyn Backend>> {
        let (run, _) =
            variant::run_of(name, inner.descriptor(), self.wanted_run(name, inner.descriptor()));
        let with = match &profile {
            Some(kept) => With::Profile(&kept.profile, kept.revision),
            None => self
                .options
                .of(inner.descriptor())
                .map_or(With::Nothing, |(options, revision)| With::Options(options, revision)),
        };
        match Variant::of(inner, run, with) {
            Ok(backend) => Some(backend),
            Err(error) => {
                tracing::error!(backend = name, %error, "the profile does not fit the component");
                None
            }
        }
    }

    /// The profile of this name, where there is no component of it.
    fn profile(&self, name: &str) -> Option<Arc<Kept>> {
        let free = name == PROFILED || self.components.get(name).is_none();
        self.read().profiles.get(name).filter(|_| free).cloned()
    }

    fn place(&self, name: &str) -> Place {
        let default = self.default.get().is_some_and(|default| default == name);
        let home = self.examiner.variables.get("HOME").map(String::as_str);
        let profile = self.profile(name);
        let operators = self.examiner.config.backend_cli_path.clone().filter(|_| default);
        Place {
            path: operators.or_else(|| profile.as_ref()?.profile.program_path(home)),
            hint: if default {
                Some("set BACKEND_CLI_PATH")
            } else {
                profile.map(|_| "give its path in acp.md")
            },
            default,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write()
    }
}

#[async_trait]
impl Backends for AgentRegistry {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        let (inner, profile) = self.base(name)?;
        self.made_of(name, inner, profile)
    }

    async fn kept(&self, name: &str, digest: &str) -> Option<Arc<dyn Backend>> {
        let is_it = |backend: &Arc<dyn Backend>| backend.generation().digest == digest;
        if let Some(backend) = self.get(name).filter(is_it) {
            return Some(backend);
        }
        let profile = self.profile(name);
        let component = if profile.is_some() { PROFILED } else { name };
        let kept = self.components.kept_components(component).await;
        kept.into_iter().find_map(|earlier| {
            let earlier = earlier as Arc<dyn Backend>;
            self.made_of(name, earlier, profile.clone()).filter(is_it)
        })
    }

    async fn components(&self, name: &str) -> Vec<KnownComponent> {
        // A name that somebody wrote into a file is never made a path.
        if !self.names().iter().any(|known| known == name) {
            return Vec::new();
        }
        self.components.known_components(&self.component_of(name)).await
    }

    async fn on_trial(&self, name: &str, digest: &str) -> Result<Arc<dyn Backend>, String> {
        if !self.names().iter().any(|known| known == name) {
            return Err(format!("there is no backend `{name}`"));
        }
        Ok(self.components.try_component(&self.component_of(name), digest).await?)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.components.names();
        let profiles = names
            .iter()
            .any(|name| name == PROFILED)
            .then(|| self.read().profiles.keys().cloned().collect::<Vec<_>>());
        names.retain(|name| name != PROFILED);
        names.extend(profiles.into_iter().flatten());
        names.sort_unstable();
        names.dedup();
        names
    }

    fn offered(&self) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| match self.findings(name) {
            Some(findings) => findings.faults.is_empty(),
            None => self.look(name).is_some_and(|findings| findings.faults.is_empty()),
        });
        names
    }

    fn unaccepted(&self, name: &str) -> Vec<String> {
        self.waiting_of(name)
    }

    async fn unavailable(&self, name: &str) -> Option<String> {
        // What was wrong may have been mended since.
        let findings = match self.findings(name) {
            Some(findings) if findings.faults.is_empty() => findings,
            _ => self.examine(name).await?,
        };
        let reasons: Vec<&str> = findings.faults.iter().map(|fault| fault.brief).collect();
        (!reasons.is_empty()).then(|| reasons.join(", and "))
    }

    async fn roll_back(&self, name: &str, from: &Generation) -> Result<Generation, String> {
        let serves = self.get(name).map(|backend| backend.generation().clone());
        if serves.as_ref() != Some(from) {
            let serves =
                serves.map_or("nothing".to_owned(), |serves| format!("generation {serves}"));
            return Err(format!("{serves} serves `{name}` by now; nothing was changed"));
        }
        // A profile's generation has a digest of its own.
        let component = self.component_of(name);
        let beneath = self
            .components
            .component(&component)
            .map(|beneath| beneath.generation().digest.clone());
        let generation = self.components.put_back(&component, beneath.as_deref()).await?;
        Ok(self.get(name).map_or(generation, |backend| backend.generation().clone()))
    }
}

/// Whether a program is this one: the scripted agent of the demo, which nobody means unless they
/// name it.
pub fn is_demo(backend: &dyn Backend) -> bool {
    backend
        .descriptor()
        .programs
        .first()
        .is_some_and(|program| program.name == env!("CARGO_PKG_NAME"))
}
