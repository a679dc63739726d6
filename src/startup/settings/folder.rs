//! Which folder holds the operator's files where nobody names one.
//!
//! They live outside of any checkout, so that an upgrade never meets them. A folder that a gateway
//! has served from the working directory is kept: its state is there.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The file of settings in the folder, read where no other one is named.
pub const SETTINGS_FILE: &str = "settings.env";
/// The folder of a whole machine.
const SYSTEM: &str = "/etc/aetheel";
/// The folder of the working directory: in a checkout, examples.
const HERE: &str = "./config";
/// What a gateway leaves in the folder it serves.
const SERVED: &str = "state/gateway.lock";

/// A folder, and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFolder {
    /// The folder; it need not be there.
    pub path: PathBuf,
    /// Why.
    pub by: By,
}

/// Why a folder is the one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// `CONFIG_DIR` names it.
    Name,
    /// A gateway has served it from the working directory.
    State,
    /// It is the user's.
    User,
    /// It is the machine's.
    System,
    /// There is no other.
    Nothing,
}

impl fmt::Display for By {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Name => "CONFIG_DIR names it",
            Self::State => "a gateway has served it, and its state is there",
            Self::User => "it is this user's",
            Self::System => "it is this machine's, and this user has none",
            Self::Nothing => "neither this user nor this machine has another one",
        })
    }
}

impl ConfigFolder {
    /// Looks for it. `named` is the folder of `CONFIG_DIR`.
    #[must_use]
    pub fn find(named: Option<PathBuf>, variable: impl Fn(&str) -> Option<String>) -> Self {
        Self::among(named, Path::new(HERE), of_user(variable), Path::new(SYSTEM))
    }

    fn among(named: Option<PathBuf>, here: &Path, user: Option<PathBuf>, system: &Path) -> Self {
        if let Some(path) = named {
            return Self { path, by: By::Name };
        }
        if here.join(SERVED).exists() {
            return Self { path: here.to_owned(), by: By::State };
        }
        match user {
            Some(path) if path.is_dir() => Self { path, by: By::User },
            _ if is_open(system) => Self { path: system.to_owned(), by: By::System },
            _ => Self { path: here.to_owned(), by: By::Nothing },
        }
    }

    /// The file of settings that counts without being named. A working directory is no place for
    /// one: whoever starts the program in a folder of somebody else's does not ask for its settings.
    #[must_use]
    pub fn settings(&self) -> Option<PathBuf> {
        let trusted = matches!(self.by, By::Name | By::User | By::System);
        Some(self.path.join(SETTINGS_FILE)).filter(|file| trusted && file.exists())
    }

    /// What to do for the folder to be a lasting one; none: it is.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self.by {
            By::Name | By::User | By::System => None,
            By::State => Some(
                "a clone's `config/` is a set of examples: stop the gateway, move the folder to `~/.config/aetheel`, or name it in CONFIG_DIR",
            ),
            By::Nothing => Some("`aetheel init` makes a folder of your own, outside of this one"),
        }
    }
}

/// Whether a folder is there for this user: where the settings in it are somebody else's, the rest
/// is too.
fn is_open(folder: &Path) -> bool {
    let settings = folder.join(SETTINGS_FILE);
    folder.is_dir() && (!settings.exists() || File::open(settings).is_ok())
}

/// The folder of a user; none: the user has no home.
#[must_use]
pub fn of_user(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    base(&variable, "XDG_CONFIG_HOME", ".config").map(|folder| folder.join("aetheel"))
}

/// A folder of the XDG Base Directory Specification: what a variable names if that is absolute,
/// else what stands below the home folder.
#[must_use]
pub fn base(
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
    fn the_first_folder_that_is_there_counts_and_state_is_never_left_behind() {
        let root = tempfile::tempdir().unwrap();
        let [here, user, system] = ["config", "user", "system"].map(|name| root.path().join(name));
        let find = |named: Option<&str>| {
            let found =
                ConfigFolder::among(named.map(PathBuf::from), &here, Some(user.clone()), &system);
            (found.path, found.by)
        };
        assert_eq!(find(None), (here.clone(), By::Nothing));
        // Examples, and what a console keeps.
        fs::create_dir_all(here.join("state")).unwrap();
        assert_eq!(find(None), (here.clone(), By::Nothing));
        fs::create_dir(&system).unwrap();
        assert_eq!(find(None), (system.clone(), By::System));
        fs::create_dir(&user).unwrap();
        assert_eq!(find(None), (user.clone(), By::User));
        fs::write(here.join(SERVED), "1\n").unwrap();
        assert_eq!(find(None), (here.clone(), By::State), "an upgrade keeps what was served");
        assert_eq!(find(Some("/x")), ("/x".into(), By::Name));
    }

    #[test]
    fn settings_are_never_taken_from_a_working_directory() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SETTINGS_FILE), "").unwrap();
        let read = |by| ConfigFolder { path: folder.path().to_owned(), by }.settings().is_some();
        assert!(read(By::Name) && read(By::User) && read(By::System));
        assert!(!read(By::State) && !read(By::Nothing));
    }

    #[test]
    fn a_users_folder_is_where_the_variables_say() {
        let of = |set: &[(&str, &str)]| {
            of_user(|name| {
                set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let home = ("HOME", "/home/x");
        assert_eq!(of(&[home]), Some("/home/x/.config/aetheel".into()));
        assert_eq!(of(&[home, ("XDG_CONFIG_HOME", "/c")]), Some("/c/aetheel".into()));
        assert_eq!(
            of(&[home, ("XDG_CONFIG_HOME", "c")]),
            Some("/home/x/.config/aetheel".into()),
            "a relative one does not count"
        );
        assert_eq!(of(&[]), None);
    }
}
