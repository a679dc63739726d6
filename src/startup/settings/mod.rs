//! Reads the operator's settings from the environment, an env file, the service manager's
//! credentials, and a file descriptor.

pub mod env_file;
mod sources;
mod unconfigured;

use std::collections::HashMap;
use std::path::PathBuf;

pub use aetheel_store::config_folder::{
    ConfigFolder, FolderReason, SETTINGS_FILE, user_folder, xdg_folder,
};
use secrecy::SecretString;

use self::sources::SourceValues;
use self::unconfigured::UnconfiguredFolders;
use crate::cli::Common;
use crate::startup::{cluster, file_modes, survey, traces, webhooks};
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::redact::{Redactor, is_secret_name};
use aetheel_runtime::log;
use aetheel_settings::{AUTO, Config, VARIABLES};
use aetheel_turn::BASE_VARIABLES;
use aetheel_web::webhooks::WebhookSecrets;

/// The operator's settings, and the problems found while reading them.
pub struct OperatorSettings {
    /// The parsed settings. Invalid values are replaced by their defaults.
    pub config: Config,
    /// Components that a start copies to `BACKENDS_DIR`, instead of the shipped ones.
    pub copied_backends: Option<PathBuf>,
    /// The configuration folder, and the reason why it was chosen.
    pub folder: ConfigFolder,
    /// The env file that was read: the one of `--env-file`, or the one in the configuration folder.
    pub env_file: Option<PathBuf>,
    /// All variables except the gateway's own secrets. Agents get some of them.
    pub variables: HashMap<String, String>,
    /// Hides the secrets among the variables.
    pub redactor: Redactor,
    /// The secrets of webhooks, by their names in `webhooks.md`. Not in `variables`.
    pub webhook_secrets: WebhookSecrets,
    /// Problems that prevent a start.
    pub faults: Vec<Finding>,
    /// Whether an env file could not be read, so that most settings may be missing.
    pub is_unreadable: bool,
    /// Values that may be interpreted differently than the operator expects.
    pub warnings: Vec<Finding>,
    /// Files with secrets that still exist while the gateway runs.
    pub secret_files: Vec<PathBuf>,
    /// The file and line of each variable that a file sets.
    pub origins: Vec<(String, String)>,
}

impl OperatorSettings {
    /// Returns the variables that are not settings of the gateway, each with its file and line.
    #[must_use]
    pub fn unknown_variables(&self) -> Vec<(String, String)> {
        let is_known = |name: &str| {
            VARIABLES.iter().any(|variable| variable.name == name)
                || BASE_VARIABLES.contains(&name)
                || self.config.agent_env.iter().any(|given| given == name)
                || self.webhook_secrets.contains_key(name)
        };
        self.origins.iter().filter(|(name, _)| !is_known(name)).cloned().collect()
    }
}

fn is_set(value: String) -> bool {
    !value.trim().is_empty()
}

/// Returns a redactor that hides the values of secret variables.
pub fn redactor_of(variables: &HashMap<String, String>) -> Redactor {
    Redactor::new(&secret_values(variables))
}

fn secret_values(variables: &HashMap<String, String>) -> Vec<SecretString> {
    let secret = variables.iter().filter(|(name, _)| is_secret_name(name));
    secret.map(|(_, value)| value.clone().into()).collect()
}

/// The settings of a command if there is no configuration folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutSettings {
    /// It uses the defaults of all settings.
    Defaults,
    /// It uses the settings of a console, which keeps its state in the user's state folder.
    Console,
}

/// Returns the variables of all sources, and the env file that was read.
fn collect_variables(
    common: &Common,
    found: &mut SourceValues,
) -> (HashMap<String, String>, Option<PathBuf>) {
    let mut variables = std::mem::take(&mut found.values);
    for (name, value) in std::env::vars_os() {
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) {
            variables.insert(name, value);
        }
    }
    if common.env_file.is_some() {
        return (variables, common.env_file.clone());
    }
    let env_file = config_folder(&variables).settings_file();
    if let Some(path) = &env_file {
        found.env_file(path);
        for (name, value) in std::mem::take(&mut found.values) {
            variables.entry(name).or_insert(value);
        }
    }
    (variables, env_file)
}

/// Sets the backend that an argument names. Returns warnings about settings that are left out.
fn name_backend(backend: &str, variables: &mut HashMap<String, String>) -> Vec<String> {
    let configured = variables.insert("AGENT_BACKEND".to_owned(), backend.to_owned());
    let configured = configured.as_deref().unwrap_or(AUTO);
    if configured == backend {
        return Vec::new();
    }
    // These settings belong to the configured backend. Another backend has other programs and
    // models.
    let dropped = ["BACKEND_CLI_PATH", "BACKEND_MODEL"].into_iter();
    let dropped = dropped.filter(|name| variables.remove(*name).is_some_and(is_set));
    let warning =
        |name| format!("{name} is left out: it is meant for `{configured}`, not for `{backend}`");
    dropped.map(warning).collect()
}

/// Returns the parts of variables that are secrets by themselves, such as the password in a URL.
fn parts_of_secrets(config: &Config, variables: &HashMap<String, String>) -> Vec<SecretString> {
    let url = variables.get("CLUSTER_URL");
    let password = url.and_then(|url| cluster::password_of_url(url));
    let parts = url.cloned().into_iter().chain(password).map(SecretString::from);
    parts.chain(config.registry_key.iter().map(|key| key.password.clone())).collect()
}

/// Reads the settings. The environment takes precedence over the file descriptor, the descriptor
/// over credentials, and credentials over the env file. `backend` replaces `AGENT_BACKEND`. Without
/// `--env-file`, the env file in the configuration folder is read. With `repairs`, the modes of the
/// gateway's files are repaired before their content is read.
pub fn read(
    common: &Common,
    backend: Option<String>,
    without: WithoutSettings,
    repairs: bool,
) -> OperatorSettings {
    let mut found = SourceValues::read(
        common.env_file.as_deref(),
        sources::credentials().as_deref(),
        common.secrets_fd,
    );
    let (mut variables, env_file) = collect_variables(common, &mut found);
    let mut folder = config_folder(&variables);
    let mut copied_backends = None;
    let is_unconfigured = env_file.is_none() && folder.reason == FolderReason::Nothing;
    if is_unconfigured && without == WithoutSettings::Console {
        match UnconfiguredFolders::find(|name| variables.get(name).cloned()) {
            Ok(folders) => {
                folders.apply(&mut variables);
                (folder.path, copied_backends) = (folders.config, folders.copied_backends);
            }
            Err(error) => found.faults.push(error.to_string()),
        }
    }
    let asked = backend.is_some();
    if let Some(backend) = backend {
        found.warnings.extend(name_backend(&backend, &mut variables));
    }
    let (mut config, more) = Config::read_all(|name| variables.get(name).cloned());
    config.config_dir.clone_from(&folder.path);
    let invalid = |fault: String| Finding::invalid("settings", fault);
    let mut faults: Vec<Finding> = found.faults.drain(..).map(invalid).collect();
    faults.extend(more);
    config.secret_files = found.secret_files.iter().chain(env_file.iter()).cloned().collect();
    if asked {
        config.agent_backend_source = "the backend";
    }
    if let Err(fault) = log::check_filter(&config.log_level) {
        faults.push(invalid(fault.to_string()));
        "info".clone_into(&mut config.log_level);
    }
    let mut secrets = secret_values(&variables);
    let repaired = if repairs && !found.is_unreadable { file_modes::repair(&config) } else { None };
    let (webhook_secrets, more) = webhooks::take_secrets(&config, &mut variables);
    faults.extend(more);
    let (left_out, refused): (Vec<_>, Vec<_>) = survey::budgets(&config)
        .into_iter()
        .partition(|finding| finding.level == FindingLevel::LeftOut);
    faults.extend(refused);
    secrets.extend(webhooks::redacted_forms(&webhook_secrets));
    secrets.extend(parts_of_secrets(&config, &variables));
    match traces::secrets(&config.traces) {
        Ok(more) => secrets.extend(more),
        Err(more) => faults.extend(more),
    }
    let redactor = Redactor::new(&secrets);
    for ours in ["DISCORD_BOT_TOKEN", "CLUSTER_URL", "REGISTRY_KEY", "OTEL_EXPORTER_OTLP_HEADERS"] {
        variables.remove(ours);
    }
    let origins = std::mem::take(&mut found.origins);
    let SourceValues { warnings, secret_files, is_unreadable, .. } = found;
    let warnings = warnings.into_iter().map(|text| Finding::warning("settings", text));
    let warnings = warnings.chain(repaired).chain(left_out);
    let warnings = warnings.chain(readable_by_others(&secret_files)).collect();
    OperatorSettings {
        config,
        copied_backends,
        folder,
        env_file,
        variables,
        redactor,
        webhook_secrets,
        faults,
        is_unreadable,
        warnings,
        secret_files,
        origins,
    }
}

/// Warns of files with secrets that other users of this machine can read.
fn readable_by_others(files: &[PathBuf]) -> Vec<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_open = |file: &&PathBuf| {
        std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
    };
    let warning = |file: &PathBuf| {
        let path = file.display();
        let message = format!("every user of this machine can read the secrets in {path}");
        Finding::warning("secrets", message).with_hint(format!("chmod 600 {path}"))
    };
    files.iter().filter(is_open).map(warning).collect()
}

/// Returns the configuration folder that these variables select.
fn config_folder(variables: &HashMap<String, String>) -> ConfigFolder {
    let variable = |name: &str| variables.get(name).cloned();
    let named =
        variable("CONFIG_DIR").is_some_and(is_set).then(|| aetheel_settings::config_dir(variable));
    ConfigFolder::find(named, variable)
}

/// Removes all secrets from the environment of this process. Must be called while the process has
/// only one thread.
pub fn forget_secrets(settings: &OperatorSettings) {
    aetheel_process::forget_variables(|name| {
        is_secret_name(name) || settings.webhook_secrets.contains_key(name)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_env_file_is_reported_without_its_content_and_the_rest_is_used() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            "MAX_QUEUE_DEPTH=7\nthis is canary-secret no assignment\nMAX_CONCURENT_QUERIES=1\n",
        )
        .unwrap();
        let settings = read(
            &Common { env_file: Some(file.path().to_owned()), ..Common::default() },
            None,
            WithoutSettings::Defaults,
            false,
        );
        let faults = &settings.faults;
        assert!(
            faults[0].message.contains("line 2 is not `NAME=value`")
                && !faults[0].message.contains("canary"),
            "{faults:?}"
        );
        assert_eq!(settings.config.max_queue_depth, 7);
        assert_eq!(
            settings.unknown_variables(),
            [("MAX_CONCURENT_QUERIES".to_owned(), format!("{}: line 3", file.path().display()))]
        );
        let missing = read(
            &Common { env_file: Some("/nonexistent.env".into()), ..Common::default() },
            None,
            WithoutSettings::Defaults,
            false,
        )
        .faults;
        assert!(missing[0].message.contains("/nonexistent.env"));
    }

    #[test]
    fn secrets_are_recognised_by_their_names() {
        for name in
            ["ANTHROPIC_API_KEY", "DISCORD_BOT_TOKEN", "GH_TOKEN", "db_password", "CLUSTER_URL"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in
            ["PATH", "HOME", "KEYMAP", "SSL_CERT_FILE", "CREDENTIALS_DIRECTORY", "CLUSTER_NODE"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
