//! The state before the setup: the folder, the settings file and the environment.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};

use rustix::process::geteuid;
use secrecy::SecretString;

use super::InitArgs;
use crate::startup::settings::{
    ConfigFolder, FolderReason, SETTINGS_FILE, env_file, user_folder, xdg_folder,
};
use aetheel_process::forget_variables;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_settings::{Config, VARIABLES, config_dir};
use aetheel_store::disk::text_of;

const MAX_SETTINGS_BYTES: u64 = 1 << 20;
/// The setting of the token. It is never in the variables, because only Discord gets it.
pub(super) const TOKEN: &str = "DISCORD_BOT_TOKEN";

pub(super) struct ExistingSetup {
    /// Absolute path of the folder of markdown files, which may not exist.
    pub folder: PathBuf,
    /// Absolute path of the settings file, which may not exist.
    pub file: PathBuf,
    /// Whether the program finds both without flags or variables.
    pub is_default_location: bool,
    /// The contents of the settings file, if it exists.
    pub text: Option<String>,
    /// The token from the environment.
    pub token: Option<SecretString>,
    values: BTreeMap<String, String>,
    environment: HashMap<String, String>,
}

impl ExistingSetup {
    /// Reads the state. Removes the token from the environment, so it must be called while there is
    /// only one thread.
    ///
    /// # Errors
    /// Returns the reasons if nothing can be set up here.
    pub(super) fn load(args: &InitArgs) -> Result<Self, Vec<String>> {
        let mut environment: HashMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(_, value)| !value.trim().is_empty())
            .collect();
        let token = environment.remove(TOKEN).map(|token| token.trim().to_owned().into());
        forget_variables(|name| name == TOKEN);
        let variable = |name: &str| environment.get(name).cloned();
        let whole = |path: &Path| {
            absolute(path).map_err(|error| vec![format!("{}: {error}", path.display())])
        };
        let named = args.folder.clone();
        let named = named.or_else(|| variable("CONFIG_DIR").map(|_| config_dir(variable)));
        let mut folder = match named {
            Some(folder) => Some(whole(&folder)?),
            None => None,
        };
        let default = ConfigFolder::find(None, variable);
        // The system's folder is used only if it belongs to this user.
        let is_ours = match default.reason {
            FolderReason::Nothing => false,
            FolderReason::System => check_owner(&default.path).is_ok(),
            FolderReason::Name | FolderReason::State | FolderReason::User => true,
        };
        let lasting = match user_folder(variable) {
            Some(own) if !is_ours => own,
            _ => whole(&default.path)?,
        };
        let file = match (&args.env_file, &folder) {
            (Some(file), _) => whole(file)?,
            (None, Some(folder)) => folder.join(SETTINGS_FILE),
            (None, None) => lasting.join(SETTINGS_FILE),
        };
        let text = read(&file)?;
        let shown = file.display();
        let values = env_file::values(text.as_deref().unwrap_or_default()).map_err(|faults| {
            let mend = "correct the file, then run this again";
            faults.into_iter().map(|fault| format!("{shown}: {fault}; {mend}")).collect::<Vec<_>>()
        })?;
        if folder.is_none()
            && let Some(named) = values.get("CONFIG_DIR").filter(|named| !named.trim().is_empty())
        {
            let read = |name: &str| match name {
                "CONFIG_DIR" => Some(named.clone()),
                _ => variable(name),
            };
            folder = Some(whole(&config_dir(read))?);
        }
        let folder = folder.unwrap_or_else(|| lasting.clone());
        // The program does not look for settings beside state that a gateway left in the working
        // directory, nor in `./config`, the last resort of a user without a home folder.
        let is_found = default.reason != FolderReason::State
            && (is_ours || user_folder(variable).is_some())
            && folder == lasting
            && file == lasting.join(SETTINGS_FILE)
            && !environment.contains_key("CONFIG_DIR");
        for path in [&folder, &file] {
            check_owner(path)?;
        }
        Ok(Self { folder, file, is_default_location: is_found, text, token, values, environment })
    }

    /// Returns a value from the settings file, if it is set and not empty.
    pub(super) fn file_value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns a value from the environment, which overrides the file.
    pub(super) fn environment_value(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// Returns the current value of a setting that is not in an existing settings file: that of the
    /// environment, or the default. Returns `None` for a new file, whose settings are all
    /// undecided.
    pub(super) fn current_value(&self, name: &str) -> Option<String> {
        self.text.as_ref()?;
        if let Some(outside) = self.environment_value(name) {
            return Some(outside.to_owned());
        }
        let default = VARIABLES.iter().find(|variable| variable.name == name)?.default;
        let is_path = default.starts_with("./");
        let path = absolute(default).ok().filter(|_| is_path);
        Some(path.map_or_else(|| default.to_owned(), |path| path.display().to_string()))
    }

    /// Returns all variables that the gateway would have, except the token. The answers override
    /// the file, and the environment overrides both.
    pub(super) fn variables(&self, answers: &[(&str, String)]) -> HashMap<String, String> {
        let mut variables: HashMap<String, String> = self.values.clone().into_iter().collect();
        variables.extend(answers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        variables.extend(self.environment.clone());
        variables.remove(TOKEN);
        variables
    }

    /// Returns the configuration with the answers. Invalid settings have their default.
    pub(super) fn config(&self, answers: &[(&str, String)]) -> Config {
        let variables = self.variables(answers);
        let mut config = Config::read_all(|name| variables.get(name).cloned()).0;
        config.config_dir.clone_from(&self.folder);
        config
    }

    /// Returns the home folder, if it is an absolute path.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.environment_value("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    /// Returns a folder of the user below the folder that an XDG variable names.
    pub(super) fn user_folder(&self, variable: &str, below_home: &str, name: &str) -> PathBuf {
        let base = xdg_folder(|name| self.environment.get(name).cloned(), variable, below_home);
        base.map_or_else(|| self.folder.with_file_name("aetheel-data"), |base| base.join("aetheel"))
            .join(name)
    }

    /// Returns whether the settings file has changed since it was read.
    pub(super) fn is_outdated(&self) -> bool {
        read(&self.file).ok() != Some(self.text.clone())
    }
}

fn read(file: &Path) -> Result<Option<String>, Vec<String>> {
    match read_ordinary(file, MAX_SETTINGS_BYTES).and_then(text_of) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(vec![format!("cannot read the settings {}: {error}", file.display())]),
    }
}

/// Refuses files of another user, who could no longer read them after the setup.
fn check_owner(path: &Path) -> Result<(), Vec<String>> {
    match path.metadata().map(|found| found.uid()) {
        Ok(owner) if owner != geteuid().as_raw() => Err(vec![format!(
            "{} belongs to the user with the id {owner}; run this as that user, as with `sudo -H -u '#{owner}' aetheel init`",
            path.display()
        )]),
        _ => Ok(()),
    }
}
