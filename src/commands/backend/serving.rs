//! Shared parts of the commands that change which component serves: loading the components, and
//! explaining to the operator when the change takes effect.

use crate::cli::exit;
use crate::startup::LoadedBackends;
use crate::startup::StartRefusal;
use crate::startup::running::gateway_of;
use crate::startup::settings::OperatorSettings;
use crate::terminal::print_stderr;
use aetheel_model::choice::LogFormat;
use aetheel_model::redact::Redactor;
use aetheel_runtime::log;
use aetheel_settings::Config;

/// Loads the components with `log` as the log filter.
///
/// # Errors
/// Returns the exit code. The reasons are already printed.
pub(super) async fn load(
    settings: OperatorSettings,
    log: &str,
) -> Result<(Config, Redactor, LoadedBackends), u8> {
    let OperatorSettings { config, variables, redactor, .. } = settings;
    if let Err(fault) = log::start(LogFormat::Human, log, redactor.clone()) {
        print_stderr(&format!("error: {fault}"));
        return Err(exit::CONFIG);
    }
    match LoadedBackends::load(&config, &variables).await {
        Ok(loaded) => Ok((config, redactor, loaded)),
        Err(faults) => Err(StartRefusal::new(exit::CONFIG, faults).print()),
    }
}

/// Returns a sentence that explains when a change takes effect.
pub(super) fn takes_effect(config: &Config) -> String {
    match gateway_of(config) {
        Some(pid) => format!("the gateway (process {pid}) loads it now"),
        None => "no gateway runs here: the next start loads it, and an open `aetheel console` now"
            .to_owned(),
    }
}
