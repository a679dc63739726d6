//! Prepares webhooks: takes their secrets from the variables, and checks their settings.

use std::collections::HashMap;

use secrecy::SecretString;

use aetheel_model::finding::Finding;
use aetheel_model::plain::with_causes;
use aetheel_settings::{Config, VARIABLES};
use aetheel_store::workspace::WebhookFile;
use aetheel_web::webhooks::WebhookSecrets;

/// Moves the secrets that `webhooks.md` names out of the variables, so that no agent gets them.
/// Returns the secrets, and the problems of those that cannot be used.
pub fn take_secrets(
    config: &Config,
    variables: &mut HashMap<String, String>,
) -> (WebhookSecrets, Vec<Finding>) {
    let file = WebhookFile::new(&config.config_dir);
    let (mut secrets, mut faults) = (WebhookSecrets::new(), Vec::new());
    if let Err(error) = file.require_now() {
        faults.push(Finding::invalid("settings", format!("CONFIG_DIR: {}", with_causes(&error))));
    }
    let (webhooks, _) = file.read();
    for name in webhooks.secret_names() {
        if VARIABLES.iter().any(|variable| variable.name == name) {
            let message = format!("webhooks.md: `{name}` is a setting of the gateway");
            faults.push(
                Finding::invalid("settings", message)
                    .with_hint("give webhooks secrets of their own"),
            );
        } else if config.agent_env.iter().any(|passed| passed == name) {
            let message = format!(
                "AGENT_ENV must not name `{name}`: it is a webhook's secret, which agents never get"
            );
            faults.push(Finding::invalid("settings", message));
        } else if let Some(secret) =
            variables.remove(name).filter(|secret| !secret.trim().is_empty())
        {
            secrets.insert(name.to_owned(), secret.into());
        }
    }
    (secrets, faults)
}

/// Returns the texts that the redactor must hide: each secret with and without its prefix `whsec_`.
pub fn redacted_forms(secrets: &WebhookSecrets) -> impl Iterator<Item = SecretString> {
    use secrecy::ExposeSecret as _;
    secrets.values().flat_map(|secret| {
        let text = secret.expose_secret().trim();
        [Some(text), text.strip_prefix("whsec_")]
            .into_iter()
            .flatten()
            .map(SecretString::from)
            .collect::<Vec<_>>()
    })
}

/// Returns warnings about the settings of webhooks. Empty without `WEBHOOKS_ADDRESS`.
pub fn warnings(config: &Config) -> Vec<Finding> {
    if config.webhooks_address.is_none() {
        return Vec::new();
    }
    let (webhooks, _) = WebhookFile::new(&config.config_dir).read();
    let mut warnings = Vec::new();
    if webhooks.all.is_empty() {
        let file = config.config_dir.join("webhooks.md");
        let message =
            format!("WEBHOOKS_ADDRESS is set, but there is no webhook in {}", file.display());
        warnings.push(
            Finding::warning("webhooks", message)
                .with_hint("docs/configuration.md describes every setting"),
        );
    }
    warnings.extend(open_to_others(config));
    warnings
}

/// Warns of an address that others can reach.
fn open_to_others(config: &Config) -> Option<Finding> {
    let address = config.webhooks_address.filter(|address| !address.ip().is_loopback())?;
    let why = "calls come without TLS, so that others on the network can read them, including tokens of the scheme `bearer`";
    let message = format!("WEBHOOKS_ADDRESS {address} can be reached from other machines: {why}");
    Some(
        Finding::warning("webhooks", message)
            .with_hint("listen at 127.0.0.1 behind a proxy with TLS"),
    )
}
