//! Reading the operator's settings from the environment and an env file.

use std::collections::HashMap;
use std::path::Path;

use secrecy::SecretString;

use super::webhooks;

use crate::config::Config;
use crate::redact::Redactor;
use crate::telemetry;
use crate::web::webhooks::Secrets;

/// What the operator set, valid in itself.
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// All variables, the gateway's own secrets removed: what agents may be given a part of.
    pub variables: HashMap<String, String>,
    /// Knows every secret among them.
    pub redactor: Redactor,
    /// Of webhooks, by the names `webhooks.md` knows them by; not among the variables.
    pub webhook_secrets: Secrets,
}

/// Names whose values are taken for secrets wherever they show up.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["_KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"].iter().any(|part| name.contains(part))
        && !name.ends_with("_FILE")
        && !name.ends_with("_DIR")
}

/// What hides the values of secret variables.
pub(super) fn secrets(variables: &HashMap<String, String>) -> Redactor {
    let values: Vec<SecretString> = variables.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone().into()).collect();
    Redactor::new(&values)
}

/// Reads the settings; variables of the environment win over those of the file, `backend` over `AGENT_BACKEND`.
///
/// # Errors
/// Every fault found.
pub fn read(env_file: Option<&Path>, backend: Option<String>) -> Result<Settings, Vec<String>> {
    let mut faults = Vec::new();
    let mut variables = HashMap::new();
    if let Some(path) = env_file {
        match dotenvy::from_path_iter(path) {
            Err(error) => faults.push(format!("cannot read the env file {}: {error}", path.display())),
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok((name, value)) => drop(variables.insert(name, value)),
                        // Its Display repeats the line, which may hold a secret.
                        Err(dotenvy::Error::LineParse(_, index)) => {
                            faults.push(format!("{}: a line is not `NAME=value` (at its character {index})", path.display()));
                        }
                        Err(error) => faults.push(format!("{}: {error}", path.display())),
                    }
                }
            }
        }
    }
    for (name, value) in std::env::vars_os() {
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) {
            variables.insert(name, value);
        }
    }
    if let Some(backend) = backend {
        let configured = variables.insert("AGENT_BACKEND".to_owned(), backend.clone());
        if configured.as_deref().unwrap_or("claude") != backend {
            // They were meant for the configured backend; another one has other programs and models.
            variables.remove("BACKEND_CLI_PATH");
            variables.remove("BACKEND_MODEL");
        }
    }
    let config = match Config::read(|name| variables.get(name).cloned()) {
        Ok(mut config) => {
            config.env_file = env_file.map(Path::to_owned);
            faults.extend(telemetry::check_filter(&config.log_level).err());
            Some(config)
        }
        Err(more) => {
            faults.extend(more);
            None
        }
    };
    let Some(config) = config.filter(|_| faults.is_empty()) else { return Err(faults) };
    let mut secrets: Vec<SecretString> =
        variables.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone().into()).collect();
    let webhook_secrets = webhooks::take_secrets(&config, &mut variables)?;
    secrets.extend(webhooks::shapes(&webhook_secrets));
    let redactor = Redactor::new(&secrets);
    variables.remove("DISCORD_BOT_TOKEN");
    Ok(Settings { config, variables, redactor, webhook_secrets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_env_file_is_named_without_its_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "GOOD=1\nthis is canary-secret no assignment\n").unwrap();
        let faults = read(Some(file.path()), None).err().unwrap();
        assert!(faults[0].contains("NAME=value") && !faults[0].contains("canary"), "{faults:?}");
        let missing = read(Some(Path::new("/nonexistent.env")), None).err().unwrap();
        assert!(missing[0].contains("/nonexistent.env"));
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in ["ANTHROPIC_API_KEY", "DISCORD_BOT_TOKEN", "GH_TOKEN", "db_password"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "KEYMAP", "SSL_CERT_FILE", "CREDENTIALS_DIRECTORY_DIR"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
