//! Reports unknown names in the operator's settings, each with a suggestion.

use super::shipped;
use crate::agents::AgentRegistry;
use aetheel_model::agent::descriptor::Credential;
use aetheel_model::finding::Finding;
use aetheel_model::suggest::suggestion;
use aetheel_recording::Backend;
use aetheel_settings::{Config, REMOVED, VARIABLES};
use aetheel_turn::Backends;

/// Returns a warning for each variable that neither the gateway nor an agent uses. `unplaced` has
/// the variables that are not settings of the gateway, each with its file and line.
pub fn variables(unplaced: &[(String, String)], backends: &dyn Backends) -> Vec<Finding> {
    let backends = loaded_backends(backends);
    let given = |name: &str| {
        backends.iter().map(|backend| backend.descriptor()).any(|own| {
            own.environment.pass.iter().any(|passed| passed == name)
                || own.environment.sources.values().any(|source| source == name)
                || own.credentials.iter().any(|credential| matches!(credential, Credential::Variable(variable) if variable == name))
                || own.root.as_ref().is_some_and(|root| root.unless_variable == name)
        })
    };
    let unknown = unplaced.iter().filter(|(name, _)| !given(name));
    unknown
        .map(|(name, place)| {
            removed(name, place).unwrap_or_else(|| {
                let message = format!(
                    "{place}: {name} is not a setting, and no agent here receives it{}",
                    suggested_setting(name)
                );
                Finding::warning("settings", message)
            })
        })
        .collect()
}

/// Returns warnings about removed and probably misspelled settings. Used when no backends were
/// loaded, so that the variables of agents are unknown.
pub fn misspelled(unplaced: &[(String, String)]) -> Vec<Finding> {
    unplaced
        .iter()
        .filter_map(|(name, place)| {
            removed(name, place).or_else(|| {
                let meant = suggested_setting(name);
                (!meant.is_empty()).then(|| {
                    Finding::warning("settings", format!("{place}: {name} is not a setting{meant}"))
                })
            })
        })
        .collect()
}

/// Returns the warning about a setting that only an earlier version used.
fn removed(name: &str, place: &str) -> Option<Finding> {
    let (_, why) = REMOVED.iter().find(|(removed, _)| *removed == name)?;
    let message = format!("{place}: {name} is ignored: {why}");
    Some(Finding::warning("settings", message).with_hint("delete the line"))
}

/// Returns the setting with the most similar name, as the end of a message. May be empty.
fn suggested_setting(name: &str) -> String {
    suggestion(name, VARIABLES.iter().map(|variable| variable.name))
}

/// Returns a problem for each unknown name in `ALLOWED_BACKENDS`. Backends whose component was
/// refused are known, although they cannot be chosen yet.
pub fn backends(config: &Config, agents: &AgentRegistry) -> Vec<Finding> {
    let folder = shipped::serving_folder(config);
    let there =
        |name: &String| agents.get(name).is_some() || folder.join(format!("{name}.wasm")).is_file();
    let unknown = config.allowed_backends.iter().filter(|name| !there(name));
    unknown
        .map(|name| {
            let names = agents.names().join(", ");
            let message = format!("ALLOWED_BACKENDS: there is no backend {name:?}");
            Finding::invalid("settings", message).with_hint(format!("there are: {names}"))
        })
        .collect()
}

fn loaded_backends(backends: &dyn Backends) -> Vec<std::sync::Arc<dyn Backend>> {
    backends.names().iter().filter_map(|name| backends.get(name)).collect()
}
