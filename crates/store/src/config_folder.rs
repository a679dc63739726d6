//! Chooses the configuration folder if `CONFIG_DIR` is not set.
//!
//! The default is outside of any checkout, so that an upgrade cannot change the operator's files.
//! If a gateway has already used the folder `config` in the working directory, that one is chosen,
//! because it contains the state.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The env file in the configuration folder, which is read without `--env-file`.
pub const SETTINGS_FILE: &str = "settings.env";
/// The configuration folder of the machine.
const SYSTEM: &str = "/etc/aetheel";
/// The configuration folder in the working directory. In a checkout, it contains examples.
const HERE: &str = "./config";
/// A file that exists if a gateway has used the folder.
const SERVED: &str = "state/gateway.lock";

/// A configuration folder, and the reason why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFolder {
    /// The folder. It may not exist.
    pub path: PathBuf,
    /// The reason.
    pub reason: FolderReason,
}

/// Reason for the choice of a configuration folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderReason {
    /// `CONFIG_DIR` names it.
    Name,
    /// It is in the working directory, and a gateway has used it.
    State,
    /// It is the user's folder.
    User,
    /// It is the machine's folder.
    System,
    /// No other folder exists; it is the one in the working directory.
    Nothing,
}

impl fmt::Display for FolderReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Name => "CONFIG_DIR names it",
            Self::State => "a gateway has used it, and its state is there",
            Self::User => "it is this user's",
            Self::System => "it is this machine's, and this user has none",
            Self::Nothing => "neither this user nor this machine has another one",
        })
    }
}

impl ConfigFolder {
    /// Chooses the folder. `named` is the folder of `CONFIG_DIR`, and `variable` reads the
    /// environment.
    #[must_use]
    pub fn find(named: Option<PathBuf>, variable: impl Fn(&str) -> Option<String>) -> Self {
        Self::among(named, Path::new(HERE), user_folder(variable), Path::new(SYSTEM))
    }

    fn among(named: Option<PathBuf>, here: &Path, user: Option<PathBuf>, system: &Path) -> Self {
        if let Some(path) = named {
            return Self { path, reason: FolderReason::Name };
        }
        if here.join(SERVED).exists() {
            return Self { path: here.to_owned(), reason: FolderReason::State };
        }
        match user {
            Some(path) if path.is_dir() => Self { path, reason: FolderReason::User },
            _ if is_open(system) => Self { path: system.to_owned(), reason: FolderReason::System },
            _ => Self { path: here.to_owned(), reason: FolderReason::Nothing },
        }
    }

    /// Returns the path of the folder's env file if it exists and may be read. An env file in the
    /// working directory is never used, because the directory may belong to somebody else.
    #[must_use]
    pub fn settings_file(&self) -> Option<PathBuf> {
        let trusted =
            matches!(self.reason, FolderReason::Name | FolderReason::User | FolderReason::System);
        Some(self.path.join(SETTINGS_FILE)).filter(|file| trusted && file.exists())
    }

    /// Returns a hint how to move to a permanent folder, or `None` if this folder is permanent.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self.reason {
            FolderReason::Name | FolderReason::User | FolderReason::System => None,
            FolderReason::State => Some(
                "a clone's `config/` is a set of examples: stop the gateway and move the folder to `~/.config/aetheel`, or set CONFIG_DIR to it",
            ),
            FolderReason::Nothing => {
                Some("`aetheel init` creates a folder of your own, outside of this one")
            }
        }
    }
}

/// Returns whether a folder exists and belongs to this installation. If this user cannot read its
/// env file, the folder belongs to another user.
fn is_open(folder: &Path) -> bool {
    let settings = folder.join(SETTINGS_FILE);
    folder.is_dir() && (!settings.exists() || File::open(settings).is_ok())
}

/// Returns the user's configuration folder, or `None` if the user has no home folder.
#[must_use]
pub fn user_folder(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    xdg_folder(&variable, "XDG_CONFIG_HOME", ".config").map(|folder| folder.join("aetheel"))
}

/// Returns a folder of the XDG Base Directory Specification: the value of the variable `name` if it
/// is an absolute path, otherwise the path `below_home` in the home folder.
#[must_use]
pub fn xdg_folder(
    variable: impl Fn(&str) -> Option<String>,
    name: &str,
    below_home: &str,
) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(name).or_else(|| absolute("HOME").map(|home| home.join(below_home)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_existing_folder_is_chosen_and_one_with_state_comes_before_it() {
        let root = tempfile::tempdir().unwrap();
        let [here, user, system] = ["config", "user", "system"].map(|name| root.path().join(name));
        let find = |named: Option<&str>| {
            let found =
                ConfigFolder::among(named.map(PathBuf::from), &here, Some(user.clone()), &system);
            (found.path, found.reason)
        };
        assert_eq!(find(None), (here.clone(), FolderReason::Nothing));
        // A checkout has examples there, and a console saves its state there.
        fs::create_dir_all(here.join("state")).unwrap();
        assert_eq!(find(None), (here.clone(), FolderReason::Nothing));
        fs::create_dir(&system).unwrap();
        assert_eq!(find(None), (system.clone(), FolderReason::System));
        fs::create_dir(&user).unwrap();
        assert_eq!(find(None), (user.clone(), FolderReason::User));
        fs::write(here.join(SERVED), "1\n").unwrap();
        assert_eq!(
            find(None),
            (here.clone(), FolderReason::State),
            "an upgrade keeps the used folder"
        );
        assert_eq!(find(Some("/x")), ("/x".into(), FolderReason::Name));
    }

    #[test]
    fn settings_are_never_read_from_the_working_directory() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SETTINGS_FILE), "").unwrap();
        let read = |by| {
            ConfigFolder { path: folder.path().to_owned(), reason: by }.settings_file().is_some()
        };
        assert!(read(FolderReason::Name) && read(FolderReason::User) && read(FolderReason::System));
        assert!(!read(FolderReason::State) && !read(FolderReason::Nothing));
    }

    #[test]
    fn variables_determine_the_folder_of_a_user() {
        let of = |set: &[(&str, &str)]| {
            user_folder(|name| {
                set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let home = ("HOME", "/home/x");
        assert_eq!(of(&[home]), Some("/home/x/.config/aetheel".into()));
        assert_eq!(of(&[home, ("XDG_CONFIG_HOME", "/c")]), Some("/c/aetheel".into()));
        assert_eq!(
            of(&[home, ("XDG_CONFIG_HOME", "c")]),
            Some("/home/x/.config/aetheel".into()),
            "a relative path is ignored"
        );
        assert_eq!(of(&[]), None);
    }
}
