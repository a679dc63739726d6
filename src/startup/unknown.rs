//! Names an operator wrote that nothing here goes by, each with what may have been meant.

use super::shipped;
use crate::agent::descriptor::Credential;
use crate::agents::AgentRegistry;
use crate::config::{Config, REMOVED, VARIABLES, suggestion};
use crate::turn::{Backend, Backends};

/// Of variables that mean nothing to the gateway itself, each with the place it stands in: those
/// that no agent here is given either.
pub fn variables(unplaced: &[(String, String)], backends: &dyn Backends) -> Vec<String> {
    let backends = all(backends);
    let given = |name: &str| {
        backends.iter().map(|backend| backend.descriptor()).any(|own| {
            own.environment.pass.iter().any(|passed| passed == name)
                || own.credentials.iter().any(|credential| matches!(credential, Credential::Variable(variable) if variable == name))
                || own.root.as_ref().is_some_and(|root| root.unless_variable == name)
        })
    };
    let unknown = unplaced.iter().filter(|(name, _)| !given(name));
    unknown
        .map(|(name, place)| {
            removed(name, place).unwrap_or_else(|| {
                format!(
                    "{place}: {name} is no setting, and no agent here is given it{}",
                    meant(name)
                )
            })
        })
        .collect()
}

/// Reports removed settings and probably misspelt ones, for when it is not known which variables
/// agents are given.
pub fn slips(unplaced: &[(String, String)]) -> Vec<String> {
    unplaced
        .iter()
        .filter_map(|(name, place)| {
            removed(name, place).or_else(|| {
                let meant = meant(name);
                (!meant.is_empty()).then(|| format!("{place}: {name} is no setting{meant}"))
            })
        })
        .collect()
}

/// Returns the warning about a variable that only an earlier version read.
fn removed(name: &str, place: &str) -> Option<String> {
    let (_, why) = REMOVED.iter().find(|(removed, _)| *removed == name)?;
    Some(format!("{place}: {name} is ignored: {why}; hint: delete the line"))
}

/// The setting whose name is nearest, as a question.
fn meant(name: &str) -> String {
    suggestion(name, VARIABLES.iter().map(|variable| variable.name))
}

/// What `ALLOWED_BACKENDS` names that is no backend. One whose component was refused is there all
/// the same, only not to be chosen before it serves.
pub fn backends(config: &Config, agents: &AgentRegistry) -> Vec<String> {
    let folder = shipped::serving(config);
    let there =
        |name: &String| agents.get(name).is_some() || folder.join(format!("{name}.wasm")).is_file();
    let unknown = config.allowed_backends.iter().filter(|name| !there(name));
    unknown
        .map(|name| {
            format!(
                "ALLOWED_BACKENDS: there is no backend {name:?}; there are: {}",
                agents.names().join(", ")
            )
        })
        .collect()
}

fn all(backends: &dyn Backends) -> Vec<std::sync::Arc<dyn Backend>> {
    backends.names().iter().filter_map(|name| backends.get(name)).collect()
}
