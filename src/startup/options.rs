//! Converts settings into the options of the parts of the gateway.

use aetheel_discord::{DiscordOptions, StartError, TimeLimits};
use aetheel_model::redact::Redactor;
use aetheel_runtime::lease::Lease;
use aetheel_settings::Config;
use aetheel_wasm::TrustGate;

/// Returns the operator's rules for the admission of components.
#[must_use]
pub fn trust_gate(config: &Config) -> TrustGate {
    TrustGate::new(&config.config_dir, config.backend_trust, config.backend_signers.clone())
}

/// Returns the options of the Discord adapter.
///
/// # Errors
/// [`StartError::NoToken`].
pub fn discord_options(config: &Config, redactor: Redactor) -> Result<DiscordOptions, StartError> {
    Ok(DiscordOptions {
        token: config.discord_bot_token.clone().ok_or(StartError::NoToken)?,
        settings: config.discord.clone(),
        dashboard: config.dashboard_address.is_some(),
        redactor,
        time_limits: TimeLimits::default(),
        lease: Lease::endless(),
    })
}

/// Returns the name of this machine in its cluster: `NODE_NAME`, or else its host name.
#[must_use]
pub fn node_name(config: &Config) -> String {
    let host_name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    config.node_name.clone().unwrap_or_else(host_name)
}
