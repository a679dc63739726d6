//! What every command that looks at backends stands on: the sandbox, the components, the agents'
//! custody.

use std::collections::HashMap;
use std::sync::Arc;

use super::agents::Examiner;
use super::auto;
use super::fence;
use super::listing::{LeftOut, Listing, Row};
use super::roster::{PROFILED, Roster};
use super::start::Refused;
use crate::agent::descriptor::{OneShot, Sharing};
use crate::backend::{AdmissionError, Engine, Gate, LoadReport, Registry, RegistryOptions};
use crate::cli::exit;
use crate::config::{AUTO, Config};
use crate::plain::with_causes;
use crate::process::{Custody, Means};
use crate::turn::{Backend as _, Backends as _};
use crate::workspace::Components;

/// See the module.
pub struct Foundation {
    pub custody: Custody,
    pub roster: Arc<Roster>,
    pub registry: Arc<Registry>,
    /// Compiles and examines components.
    pub engine: Engine,
    /// What components must bring to serve.
    pub gate: Gate,
    /// Files that do not serve, each with its reason.
    pub refused: Vec<LeftOut>,
    /// The backend of lanes without a choice, or why there is none.
    pub default: Result<String, Refused>,
    /// How it was found, where nobody named one.
    pub detected: Option<String>,
}

impl Foundation {
    /// Loads the components and decides which backend answers; looks at no agent yet.
    ///
    /// # Errors
    /// Everything without which nothing can be looked at.
    pub async fn lay(
        config: &Config,
        variables: &HashMap<String, String>,
    ) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let sandbox = fence::raise(config).map_err(|more| faults.extend(more)).ok();
        let custody = Custody::confining(Means::Best, sandbox.clone().unwrap_or_default())
            .map(Custody::alone)
            .map_err(|error| {
                faults.push(format!("cannot take custody of processes: {}", with_causes(&error)))
            })
            .ok();
        let engine = Engine::new(&config.limits, Some(&config.cache_dir))
            .map_err(|error| {
                faults.push(format!("cannot start the backend engine: {}", with_causes(&error)))
            })
            .ok();
        let (Some(sandbox), Some(custody), Some(engine)) = (sandbox, custody, engine) else {
            return Err(faults);
        };
        let gate = Gate::new(config);
        let components = Some(Components::new(&config.config_dir));
        let options = RegistryOptions {
            gate: gate.clone(),
            components,
            ..RegistryOptions::new(&config.backends_dir)
        };
        let (registry, reports) = Registry::start(engine.clone(), options).await;
        let registry = Arc::new(registry);
        let examiner = Examiner {
            config: config.clone(),
            variables: variables.clone(),
            custody: custody.clone(),
            fence: fence::of(config, &sandbox),
        };
        let roster = Roster::new(registry.clone(), examiner).await;
        let detected =
            if config.agent_backend == AUTO { Some(auto::detect(&roster).await) } else { None };
        let default = match &detected {
            Some(auto::Detected { name: Some(name), .. }) => Ok(name.clone()),
            Some(nothing) => Err(Refused { code: exit::UNAVAILABLE, faults: nothing.faults() }),
            None if roster.get(&config.agent_backend).is_some() => Ok(config.agent_backend.clone()),
            None => {
                let refused =
                    reports.iter().any(|report| matches!(report, LoadReport::Refused { .. }));
                Err(Refused {
                    code: exit::CONFIG,
                    faults: vec![no_backend(config, &roster, refused)],
                })
            }
        };
        if let Ok(name) = &default {
            roster.decide(name);
        }
        let refused = reports.into_iter().filter_map(|report| refusal(report, &registry)).collect();
        Ok(Self {
            custody,
            roster,
            registry,
            engine,
            gate,
            refused,
            default,
            detected: detected
                .filter(|detected| detected.name.is_some())
                .map(|detected| detected.why()),
        })
    }

    /// Looks at all agents and lists the backends.
    pub async fn list(self) -> Listing {
        let Self { roster, registry, gate, refused, default, detected, .. } = self;
        roster.examine_others().await;
        let mut backends = Vec::new();
        for name in roster.names() {
            let component = roster.component_of(&name);
            let declared =
                registry.get(&component).map_or((Sharing::Turn, OneShot::Never), |backend| {
                    let descriptor = backend.descriptor();
                    (descriptor.sharing, descriptor.one_shot)
                });
            if let (Some(backend), Some(findings)) = (roster.get(&name), roster.findings(&name)) {
                let is_default = default.as_ref().is_ok_and(|default| *default == name);
                let chosen = registry.chosen(&component);
                backends.push(
                    Row::new(&*backend, component, declared, &findings, is_default)
                        .with_file(chosen.as_deref()),
                );
            }
        }
        let mut warnings = roster.warnings();
        warnings.extend(roster.run_warnings());
        warnings.extend(roster.option_warnings());
        warnings.extend(roster.tool_warnings());
        warnings.extend(gate.warnings().await);
        let (default, faults) = match default {
            Ok(default) => (Some(default), Vec::new()),
            Err(refused) => (None, refused.faults),
        };
        // What is wrong with each stands beside it.
        warnings.extend(faults.into_iter().take(1));
        Listing { default, detected, trust: gate.level().word(), backends, refused, warnings }
    }
}

/// Why a file of the backends folder does not serve, and what serves instead where it waits for the
/// operator's word.
fn refusal(report: LoadReport, registry: &Registry) -> Option<LeftOut> {
    let LoadReport::Refused { path, reason } = report else { return None };
    let says = format!("{}: {}", path.display(), with_causes(&*reason));
    let AdmissionError::Unaccepted(wants) = &*reason else {
        return Some(LeftOut { says, hint: reason.hint().to_owned() });
    };
    let name = &wants.descriptor.name;
    let meanwhile = match registry.component(name) {
        Some(serving) => format!("version {} serves meanwhile", serving.descriptor().version),
        None => format!("until then there is no backend `{name}`"),
    };
    Some(LeftOut {
        says: format!("{says}; {meanwhile}"),
        hint: reason.hint().replace("NAME", name),
    })
}

fn no_backend(config: &Config, roster: &Roster, refused: bool) -> String {
    let (wanted, names, by) = (&config.agent_backend, roster.names(), config.agent_backend_by);
    let folder = config.backends_dir.display();
    if wanted == PROFILED {
        return format!(
            "{by} {wanted:?} has no agent of its own; name one of the profiles in acp.md"
        );
    }
    if roster.is_profile(wanted) {
        return format!(
            "{by} {wanted:?} is a profile of acp.md, but {folder} has no backend `{PROFILED}` to run it"
        );
    }
    if names.is_empty() && refused {
        format!(
            "{by} {wanted:?}: no backend could be loaded from {folder}: every file there is refused, each for its own reason"
        )
    } else if names.is_empty() {
        format!(
            "{by} {wanted:?}: no backend could be loaded from {folder}; build them with `make guests`"
        )
    } else {
        format!(
            "{by} {wanted:?} is not one of the backends in {folder}: {}; `{AUTO}` takes what can work here",
            names.join(", ")
        )
    }
}
