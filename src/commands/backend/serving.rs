//! Shared parts of the commands that change which component serves: loading the components, and
//! telling the operator when the change takes effect.

use crate::cli::exit;
use crate::config::{Config, LogFormat};
use crate::redact::Redactor;
use crate::startup::LoadedBackends;
use crate::startup::Refused;
use crate::startup::running::gateway_of;
use crate::startup::settings::Settings;
use crate::telemetry;
use crate::terminal::say;

/// Loads the components with `log` as the log filter.
///
/// # Errors
/// Returns the exit code. The reasons are already printed.
pub(super) async fn load(
    settings: Settings,
    log: &str,
) -> Result<(Config, Redactor, LoadedBackends), u8> {
    let Settings { config, variables, redactor, .. } = settings;
    if let Err(fault) = telemetry::start(LogFormat::Human, log, redactor.clone()) {
        say(&format!("error: {fault}"));
        return Err(exit::CONFIG);
    }
    match LoadedBackends::load(&config, &variables).await {
        Ok(loaded) => Ok((config, redactor, loaded)),
        Err(faults) => Err(Refused::new(exit::CONFIG, faults).print()),
    }
}

/// Returns a sentence that explains when a change takes effect.
pub(super) fn takes_effect(config: &Config) -> String {
    match gateway_of(config) {
        Some(pid) => format!("the gateway (process {pid}) loads it now"),
        None => "no gateway runs here: the next start loads it".to_owned(),
    }
}
