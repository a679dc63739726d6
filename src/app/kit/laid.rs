//! What commands stand on that change which component serves, and what they say of the gateway that
//! runs.

use crate::app::doctor::gateway_of;
use crate::app::foundation::Foundation;
use crate::app::settings::Settings;
use crate::app::start::Refused;
use crate::app::{say, tell};
use crate::cli::exit;
use crate::config::{Config, LogFormat};
use crate::redact::Redactor;
use crate::telemetry;

/// Lays the foundation; `log` is what is logged meanwhile.
///
/// # Errors
/// The exit code; why is told already.
pub(super) async fn lay(
    settings: Settings,
    log: &str,
) -> Result<(Config, Redactor, Foundation), u8> {
    let Settings { config, variables, redactor, .. } = settings;
    if let Err(fault) = telemetry::start(LogFormat::Human, log, redactor.clone()) {
        say(&format!("error: {fault}"));
        return Err(exit::CONFIG);
    }
    match Foundation::lay(&config, &variables).await {
        Ok(foundation) => Ok((config, redactor, foundation)),
        Err(faults) => {
            tell(&Refused { code: exit::CONFIG, faults });
            Err(exit::CONFIG)
        }
    }
}

/// When a change takes effect.
pub(super) fn takes_effect(config: &Config) -> String {
    match gateway_of(config) {
        Some(pid) => format!("the gateway (process {pid}) loads it now"),
        None => "no gateway runs here: the next start loads it".to_owned(),
    }
}
