//! What stands before anything is asked: the folder, the file of settings, the environment.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};

use rustix::process::geteuid;
use secrecy::SecretString;

use crate::cli::Init;
use crate::config::{Config, VARIABLES, config_dir};
use crate::disk::{read_ordinary, text_of};
use crate::process::forget_variables;
use crate::startup::settings::{By, ConfigFolder, SETTINGS_FILE, base, env_file, of_user};

/// Largest file of settings, bytes.
const MOST: u64 = 1 << 20;
/// Never among the variables: nobody but Discord gets it.
pub(super) const TOKEN: &str = "DISCORD_BOT_TOKEN";

/// See the module.
pub(super) struct Standing {
    /// The folder of the markdown files, absolute; it need not be there.
    pub folder: PathBuf,
    /// The file of settings, absolute; it need not be there.
    pub file: PathBuf,
    /// The program finds both by itself.
    pub is_found: bool,
    /// The file as it is; none: there is none.
    pub text: Option<String>,
    /// The token in the environment.
    pub token: Option<SecretString>,
    values: BTreeMap<String, String>,
    environment: HashMap<String, String>,
}

impl Standing {
    /// Looks. Takes the token out of the environment, so it is to be called while there is one
    /// thread.
    ///
    /// # Errors
    /// Why nothing can be set up here.
    pub(super) fn look(wish: &Init) -> Result<Self, Vec<String>> {
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
        let named =
            wish.folder.clone().or_else(|| variable("CONFIG_DIR").map(|_| config_dir(variable)));
        let mut folder = match named {
            Some(folder) => Some(whole(&folder)?),
            None => None,
        };
        let default = ConfigFolder::find(None, variable);
        // The machine's folder is for whoever owns it.
        let is_ours = match default.by {
            By::Nothing => false,
            By::System => check_owner(&default.path).is_ok(),
            By::Name | By::State | By::User => true,
        };
        let lasting = match of_user(variable) {
            Some(own) if !is_ours => own,
            _ => whole(&default.path)?,
        };
        let file = match (&wish.env_file, &folder) {
            (Some(file), _) => whole(file)?,
            (None, Some(folder)) => folder.join(SETTINGS_FILE),
            (None, None) => lasting.join(SETTINGS_FILE),
        };
        let text = read(&file)?;
        let shown = file.display();
        let values = env_file::values(text.as_deref().unwrap_or_default()).map_err(|faults| {
            let mend = "mend the file, and run this again";
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
        // No settings are looked for beside what a gateway has served from the working directory,
        // nor in `./config`, which is the last resort of a user without a home.
        let is_found = default.by != By::State
            && (is_ours || of_user(variable).is_some())
            && folder == lasting
            && file == lasting.join(SETTINGS_FILE)
            && !environment.contains_key("CONFIG_DIR");
        for path in [&folder, &file] {
            check_owner(path)?;
        }
        Ok(Self { folder, file, is_found, text, token, values, environment })
    }

    /// What the file says; none: nothing.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// What the environment says, which wins over the file; none: nothing.
    pub(super) fn outside(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// Returns what counts today for a setting that the file does not have, for a file that is
    /// there already; `None` for a new file, for which everything is still to be decided.
    pub(super) fn today(&self, name: &str) -> Option<String> {
        self.text.as_ref()?;
        if let Some(outside) = self.outside(name) {
            return Some(outside.to_owned());
        }
        let default = VARIABLES.iter().find(|variable| variable.name == name)?.default;
        let is_path = default.starts_with("./");
        let path = absolute(default).ok().filter(|_| is_path);
        Some(path.map_or_else(|| default.to_owned(), |path| path.display().to_string()))
    }

    /// All variables but the token, as the gateway would have them, with these in place of the
    /// file's.
    pub(super) fn variables(&self, answers: &[(&str, String)]) -> HashMap<String, String> {
        let mut variables: HashMap<String, String> = self.values.clone().into_iter().collect();
        variables.extend(answers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        variables.extend(self.environment.clone());
        variables.remove(TOKEN);
        variables
    }

    /// The configuration with these answers; what is wrong in it has the default.
    pub(super) fn config(&self, answers: &[(&str, String)]) -> Config {
        let variables = self.variables(answers);
        let mut config = Config::read_all(|name| variables.get(name).cloned()).0;
        config.config_dir.clone_from(&self.folder);
        config
    }

    /// The home folder.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.outside("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    /// A folder of the user's own, below the one an XDG variable names.
    pub(super) fn own(&self, variable: &str, below_home: &str, name: &str) -> PathBuf {
        let base = base(|name| self.environment.get(name).cloned(), variable, below_home);
        base.map_or_else(|| self.folder.with_file_name("aetheel-data"), |base| base.join("aetheel"))
            .join(name)
    }

    /// Whether somebody changed the file since it was read.
    pub(super) fn is_outdated(&self) -> bool {
        read(&self.file).ok() != Some(self.text.clone())
    }
}

fn read(file: &Path) -> Result<Option<String>, Vec<String>> {
    match read_ordinary(file, MOST).and_then(text_of) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(vec![format!("cannot read the settings {}: {error}", file.display())]),
    }
}

/// Files of another user's would become unreadable for that one.
fn check_owner(path: &Path) -> Result<(), Vec<String>> {
    match path.metadata().map(|found| found.uid()) {
        Ok(owner) if owner != geteuid().as_raw() => Err(vec![format!(
            "{} belongs to the user with the id {owner}; run this as that user, as with `sudo -H -u '#{owner}' aetheel init`",
            path.display()
        )]),
        _ => Ok(()),
    }
}
