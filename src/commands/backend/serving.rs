//! The shared parts of commands that change which component serves: loading, and words about the
//! gateway that runs.

use crate::cli::exit;
use crate::config::{Config, LogFormat};
use crate::redact::Redactor;
use crate::startup::LoadedBackends;
use crate::startup::Refused;
use crate::startup::running::gateway_of;
use crate::startup::settings::Settings;
use crate::telemetry;
use crate::terminal::say;

/// Loads the components; `log` is the filter of the log meanwhile.
///
/// # Errors
/// The exit code; the reasons are printed already.
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

/// When a change takes effect.
pub(super) fn takes_effect(config: &Config) -> String {
    match gateway_of(config) {
        Some(pid) => format!("the gateway (process {pid}) loads it now"),
        None => "no gateway runs here: the next start loads it".to_owned(),
    }
}
