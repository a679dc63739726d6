//! Loads the backends with everything that they need: the sandbox, the components, and the custody
//! of processes. Used by the gateway and by all commands about backends.

use std::collections::HashMap;
use std::sync::Arc;

use super::confinement;
use super::{StartRefusal, shipped, trust_gate};
use crate::agents::AgentRegistry;
use crate::agents::auto;
use crate::agents::findings::Examiner;
use crate::cli::exit;
use aetheel_model::finding::Finding;
use aetheel_model::plain::with_causes;
use aetheel_model::suggest::suggestion;
use aetheel_process::{Custody, Means};
use aetheel_recording::Backend as _;
use aetheel_settings::{AUTO, Config};
use aetheel_store::workspace::{Components, FileError};
use aetheel_turn::Backends as _;
use aetheel_wasm::{
    AdmissionError, Engine, ExtensionInfo, ExtensionRefusal, LoadReport, ObserverSet, PolicySet,
    Registry, RegistryOptions, TrustGate,
};

/// The loaded backends.
pub struct LoadedBackends {
    /// Starts and ends agents.
    pub custody: Custody,
    /// The backends as the operator configured them.
    pub agents: Arc<AgentRegistry>,
    /// The components that serve.
    pub components: Arc<Registry>,
    /// The policies in use.
    pub policies: Arc<PolicySet>,
    /// The observers in use.
    pub observers: Arc<ObserverSet>,
    /// Compiles and examines components.
    pub engine: Engine,
    /// The operator's rules for the admission of components.
    pub gate: TrustGate,
    /// Component files that are not used, each with the reason.
    pub refused: Vec<Finding>,
    /// The backend of lanes that have not chosen one, or the reason why it cannot be determined.
    pub default: Result<String, StartRefusal>,
    /// How the default backend was detected, with `AGENT_BACKEND=auto`.
    pub detected: Option<String>,
}

impl LoadedBackends {
    /// Loads the components and determines the default backend. Examines agents only for
    /// `AGENT_BACKEND=auto`.
    ///
    /// # Errors
    /// Returns the problems with the sandbox, custody, engine or configuration folder.
    pub async fn load(
        config: &Config,
        variables: &HashMap<String, String>,
    ) -> Result<Self, Vec<Finding>> {
        let mut faults = Vec::new();
        let sandbox = confinement::probe_sandbox(config).map_err(|more| faults.extend(more)).ok();
        let custody = Custody::confining(Means::Best, sandbox.clone().unwrap_or_default())
            .map(Custody::as_sole_spawner)
            .map_err(|error| {
                let message = format!("cannot take custody of processes: {}", with_causes(&error));
                faults.push(Finding::invalid("backends", message));
            })
            .ok();
        let engine = Engine::new(&config.limits, Some(&config.cache_dir), aetheel_settings::NAMES)
            .map_err(|error| {
                let message = format!("cannot start the backend engine: {}", with_causes(&error));
                faults.push(Finding::invalid("backends", message));
            })
            .ok();
        let (Some(sandbox), Some(custody), Some(engine)) = (sandbox, custody, engine) else {
            return Err(faults);
        };
        let gate = trust_gate(config);
        let refused = |error: FileError| {
            vec![Finding::invalid("backends", format!("CONFIG_DIR: {}", with_causes(&error)))]
        };
        gate.require().await.map_err(refused)?;
        let kept = Some(Components::new(&config.config_dir));
        let options = RegistryOptions {
            gate: gate.clone(),
            components: kept,
            rollout: config.backend_rollout.clone(),
            ..RegistryOptions::new(&shipped::serving_folder(config))
        };
        let (registry, reports) = Registry::start(engine.clone(), options).await;
        let registry = Arc::new(registry);
        let folder = shipped::serving_folder(config);
        let (policies, refused_policies) =
            PolicySet::start(engine.clone(), &folder, gate.clone()).await;
        let output = config.config_dir.join("state/observers");
        let (observers, refused_observers) =
            ObserverSet::start(engine.clone(), &folder, output, gate.clone()).await;
        let examiner = Examiner {
            config: config.clone(),
            variables: variables.clone(),
            custody: custody.clone(),
            fence: confinement::fence(config, &sandbox),
        };
        let agents = AgentRegistry::new(registry.clone(), examiner).await.map_err(refused)?;
        let detected =
            if config.agent_backend == AUTO { Some(auto::detect(&agents).await) } else { None };
        let is_refused = reports.iter().any(|report| matches!(report, LoadReport::Refused { .. }));
        let default = default_backend(config, &agents, detected.as_ref(), is_refused);
        if let Ok(name) = &default {
            agents.set_default(name);
        }
        let refused = reports.into_iter().filter_map(|report| refusal(report, &registry));
        let extensions = refused_policies.iter().chain(&refused_observers);
        let refused = refused.chain(extensions.map(extension_refusal)).collect();
        Ok(Self {
            custody,
            agents,
            components: registry,
            policies: Arc::new(policies),
            observers: Arc::new(observers),
            engine,
            gate,
            refused,
            default,
            detected: detected
                .filter(|detected| detected.name.is_some())
                .map(|detected| detected.why()),
        })
    }
}

impl LoadedBackends {
    /// Describes the policies and observers in use.
    pub fn extensions(&self) -> Vec<ExtensionInfo> {
        self.policies.list().into_iter().chain(self.observers.list()).collect()
    }
}

/// Returns the configured or detected backend. `is_refused` is whether the file of a component was
/// refused.
///
/// # Errors
/// Returns the reasons if no backend can be the default.
fn default_backend(
    config: &Config,
    agents: &AgentRegistry,
    detected: Option<&auto::Detection>,
    is_refused: bool,
) -> Result<String, StartRefusal> {
    match detected {
        Some(auto::Detection { name: Some(name), .. }) => Ok(name.clone()),
        // Without any backend, the way to get some is the next step.
        Some(_) if agents.names().is_empty() => {
            Err(StartRefusal::new(exit::CONFIG, vec![no_backend(config, agents, is_refused)]))
        }
        Some(nothing) => Err(StartRefusal::new(exit::UNAVAILABLE, nothing.faults())),
        None if agents.get(&config.agent_backend).is_some() => Ok(config.agent_backend.clone()),
        None => {
            let is_argument = config.agent_backend_source != "AGENT_BACKEND";
            let code = match is_argument && !is_refused && !agents.names().is_empty() {
                true => exit::USAGE,
                false => exit::CONFIG,
            };
            Err(StartRefusal::new(code, vec![no_backend(config, agents, is_refused)]))
        }
    }
}

/// Returns the reason why a component file is not used, and the version that serves instead.
fn refusal(report: LoadReport, registry: &Registry) -> Option<Finding> {
    let LoadReport::Refused { path, reason } = report else { return None };
    let says = format!("{}: {}", path.display(), with_causes(&*reason));
    let AdmissionError::Unaccepted(wants) = &*reason else {
        let Some((name, version)) = registry.fallback_of(&path) else {
            return Some(Finding::left_out("backend file", says).with_hint(reason.hint()));
        };
        let message = format!(
            "{says}; version {version} of `{name}`, which served before, serves in its place"
        );
        let hint = format!(
            "{}; `aetheel backend rollback {name}` writes the kept version back",
            reason.hint()
        );
        return Some(Finding::left_out("backend file", message).with_hint(hint));
    };
    let name = &wants.descriptor.name;
    let meanwhile = match registry.component(name) {
        Some(serving) => format!("version {} serves meanwhile", serving.descriptor().version),
        None => format!("until then there is no backend `{name}`"),
    };
    let hint = reason.hint().replace("NAME", name);
    Some(Finding::left_out("backend file", format!("{says}; {meanwhile}")).with_hint(hint))
}

/// Returns the reason why the file of a policy or an observer is not used.
fn extension_refusal(refused: &ExtensionRefusal) -> Finding {
    let says = format!("{}: {}", refused.path.display(), with_causes(&*refused.reason));
    Finding::left_out("component file", says).with_hint(refused.reason.hint())
}

fn no_backend(config: &Config, agents: &AgentRegistry, refused: bool) -> Finding {
    let invalid = |message: String| Finding::invalid("default backend", message);
    let (wanted, names, by) = (&config.agent_backend, agents.names(), config.agent_backend_source);
    let folder = shipped::serving_folder(config);
    let folder = folder.display();
    if agents.takes_profiles(wanted) {
        return invalid(format!("{by} {wanted:?} has no agent of its own"))
            .with_hint("name one of the profiles in acp.md");
    }
    if agents.is_profile(wanted) {
        return invalid(format!(
            "{by} {wanted:?} is a profile of acp.md, but {folder} has no backend that runs profiles"
        ));
    }
    if names.is_empty() && refused {
        invalid(format!(
            "{by} {wanted:?}: no backend could be loaded from {folder}: all files there are refused"
        ))
    } else if names.is_empty() {
        invalid(format!("{by} {wanted:?}: there are no backends in {folder}"))
            .with_hint(shipped::HOW_TO_GET)
    } else {
        let meant = suggestion(wanted, names.iter().map(String::as_str));
        let names = names.join(", ");
        invalid(format!("{by} {wanted:?} is not one of the backends in {folder}: {names}{meant}"))
            .with_hint(format!("`{AUTO}` chooses one that works here"))
    }
}
