//! The paths of data that must outlive an agent's process, as its backend declares them. A confined
//! agent may write to them.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Maximum number of paths that a descriptor may declare.
const PLACES: usize = 16;
const MAX_PATH_BYTES: usize = 256;

/// Whether the agent may change a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateAccess {
    /// It may read, write, create and remove.
    #[default]
    Write,
    /// It may only read.
    Read,
}

/// A path below the home folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StatePath {
    /// `~/` and a path. With a slash at its end it is a folder, otherwise a file.
    pub path: String,
    /// Whether the agent may change it.
    #[serde(default)]
    pub access: StateAccess,
    /// The operator's variable that moves the path; its value is a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_by: Option<String>,
    /// The path below that folder; empty for the folder itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub below: String,
}

impl StatePath {
    /// Returns whether it is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.path.ends_with('/')
    }

    /// Returns its absolute path with these variables, or `None` without a home folder. `moved_by`
    /// is used if its value is an absolute path.
    #[must_use]
    pub fn place(&self, variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
        if let Some(moved) = self.moved_by.as_deref().and_then(&variable).and_then(absolute) {
            return Some(if self.below.is_empty() { moved } else { moved.join(&self.below) });
        }
        let home = variable("HOME").and_then(absolute)?;
        Some(home.join(self.path.strip_prefix("~/")?.trim_end_matches('/')))
    }
}

/// Returns the faults of some paths. `pass` contains the variables that the agent receives.
pub(super) fn faults(state: &[StatePath], pass: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    if state.len() > PLACES {
        faults.push(format!("`state` lists more than {PLACES} paths"));
    }
    for place in state {
        let inside =
            place.path.strip_prefix("~/").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        if !inside.is_some_and(|inside| !inside.is_empty() && is_plain(inside)) {
            faults.push(format!(
                "state {:?} must be `~/` and a path below the home folder, without `.` and `..`",
                place.path
            ));
        }
        if !place.below.is_empty() && !is_plain(&place.below) {
            faults.push(format!(
                "state {:?}: `below` {:?} must be a path without `.` and `..`",
                place.path, place.below
            ));
        }
        match &place.moved_by {
            Some(name) if !pass.contains(name) => {
                faults.push(format!(
                    "state {:?} is moved by `{name}`, which `environment.pass` does not list",
                    place.path
                ));
            }
            None if !place.below.is_empty() => {
                faults.push(format!("state {:?} has `below` without `moved-by`", place.path))
            }
            _ => {}
        }
    }
    faults
}

fn is_plain(path: &str) -> bool {
    path.len() <= MAX_PATH_BYTES
        && !path.contains("//")
        && !path.ends_with('/')
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> StatePath {
        StatePath { path: path.to_owned(), ..StatePath::default() }
    }

    #[test]
    fn only_plain_paths_below_the_home_folder_are_valid() {
        for path in ["~/.claude/", "~/.claude.json", "~/.local/share/opencode/"] {
            assert_eq!(faults(&[of(path)], &[]), [] as [&str; 0], "{path}");
        }
        for path in [
            "~/", "~", "", "/", "/etc/", "~//", "~/../", "~/..", "~/a/../b", "~/./", "~/a//b",
            "~/a\n", "~/a\0", "~root/x", ".x/",
        ] {
            assert_eq!(faults(&[of(path)], &[]).len(), 1, "{path:?}");
        }
    }

    #[test]
    fn only_a_variable_that_the_agent_receives_moves_a_path() {
        let moved = |below: &str| StatePath {
            moved_by: Some("X_HOME".into()),
            below: below.into(),
            ..of("~/.x/")
        };
        assert_eq!(faults(&[moved(".x")], &["X_HOME".into()]), [] as [&str; 0]);
        assert_eq!(faults(&[moved("")], &[]).len(), 1);
        assert_eq!(faults(&[moved("..")], &["X_HOME".into()]).len(), 1);
        assert_eq!(faults(&[moved("/etc")], &["X_HOME".into()]).len(), 1);
        let set = |moved: Option<&'static str>| {
            move |name: &str| match name {
                "HOME" => Some("/home/ada".to_owned()),
                _ => moved.map(str::to_owned),
            }
        };
        assert_eq!(moved(".x").place(set(None)), Some("/home/ada/.x".into()));
        assert_eq!(moved(".x").place(set(Some("/srv/x"))), Some("/srv/x/.x".into()));
        assert_eq!(moved("").place(set(Some("/srv/x"))), Some("/srv/x".into()));
        assert_eq!(moved("").place(set(Some("relative"))), Some("/home/ada/.x".into()));
        assert_eq!(moved("").place(|_| None), None);
    }
}
