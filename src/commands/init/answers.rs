//! Parses answers, and explains why one is invalid.

use std::io;
use std::path::{Path, PathBuf};

use crate::startup::surroundings;
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::id::UserOrRoleId;
use aetheel_model::permission::{PERMISSION_CHOICES, PermissionChoice};

#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error(
        "{0:?} is not a Discord id, a number of 17 to 20 digits: switch on the developer mode (user settings, Advanced), right-click, Copy ID"
    )]
    NotAnId(String),
    #[error("{0:?} is not one of {words}", words = PERMISSION_CHOICES.map(|choice| format!("`{}`", choice.word)).join(", "))]
    UnknownPermission(String),
    #[error("a working directory needs a path")]
    NoPath,
    #[error("{0:?} cannot be resolved: HOME is not set; give an absolute path")]
    NoHome(String),
    #[error("{text:?} cannot be used as a folder: {error}")]
    NotAPath {
        text: String,
        #[source]
        error: io::Error,
    },
    /// One of the two folders contains the other.
    #[error(
        "{} and {} must be separate: agents may change everything in their working directory",
        path.display(),
        folder.display()
    )]
    NotSeparate { path: PathBuf, folder: PathBuf },
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// A start would not use the folder.
    #[error("{0}")]
    Unusable(Finding),
}

/// Access lists with Discord ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AccessLists {
    pub users: Vec<u64>,
    pub roles: Vec<u64>,
    pub channels: Vec<u64>,
    pub guilds: Vec<u64>,
}

impl AccessLists {
    pub(super) fn lists(&self) -> [(&'static str, &Vec<u64>); 4] {
        [
            ("ALLOWED_USERS", &self.users),
            ("ALLOWED_ROLES", &self.roles),
            ("ALLOWED_CHANNELS", &self.channels),
            ("ALLOWED_GUILDS", &self.guilds),
        ]
    }

    /// Returns whether all lists are empty, so that everybody may use the bot.
    pub(super) fn is_everybody(&self) -> bool {
        self.lists().iter().all(|(_, list)| list.is_empty())
    }
}

/// Number of digits of a Discord id: at least as many as in the ids of the first accounts, and at
/// most as many as in a 64-bit number.
const ID_DIGITS: std::ops::RangeInclusive<usize> = 17..=20;

/// Parses Discord ids from an answer, separated by commas or blanks. `none` and an empty text are
/// an empty list.
///
/// # Errors
/// Names the first word that cannot be a Discord id.
pub(super) fn new_ids(text: &str) -> Result<Vec<u64>, AnswerError> {
    let ids = ids(text)?;
    match ids.iter().find(|id| !ID_DIGITS.contains(&id.to_string().len())) {
        Some(id) => Err(AnswerError::NotAnId(id.to_string())),
        None => Ok(ids),
    }
}

/// Parses ids from a setting, separated by commas or blanks. `none` and an empty text are an empty
/// list.
///
/// # Errors
/// Names the first word that is not a positive number.
pub(super) fn ids(text: &str) -> Result<Vec<u64>, AnswerError> {
    if text.trim() == "none" {
        return Ok(Vec::new());
    }
    let words = text.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let id = UserOrRoleId::parse_nonzero(word).ok().and_then(UserOrRoleId::as_discord);
            id.ok_or_else(|| AnswerError::NotAnId(word.to_owned()))
        })
        .collect()
}

pub(super) fn format_ids(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// Parses what agents may do, by a word, a permission mode or a safety level.
///
/// # Errors
/// Lists the valid words if the text is not one.
pub(super) fn permission(text: &str) -> Result<PermissionChoice, AnswerError> {
    PermissionChoice::find(text).ok_or_else(|| AnswerError::UnknownPermission(text.to_owned()))
}

/// Parses a working directory and makes it absolute.
///
/// # Errors
/// Returns the reason if it cannot be used. It must be separate from the folder of settings,
/// because agents may change everything in it.
pub(super) fn workspace(
    text: &str,
    folder: &Path,
    home: Option<&Path>,
) -> Result<PathBuf, AnswerError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(AnswerError::NoPath);
    }
    let below_home = if text == "~" { Some("") } else { text.strip_prefix("~/") };
    let path = match (below_home, home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) => return Err(AnswerError::NoHome(text.to_owned())),
        _ => PathBuf::from(text),
    };
    let path = std::path::absolute(&path)
        .map_err(|error| AnswerError::NotAPath { text: text.to_owned(), error })?;
    if folder.starts_with(&path) || path.starts_with(folder) {
        return Err(AnswerError::NotSeparate { path, folder: folder.to_owned() });
    }
    if path.exists() && !path.is_dir() {
        return Err(AnswerError::NotAFolder(path));
    }
    let probed = folder_finding(&path);
    if probed.level.is_fault() {
        return Err(AnswerError::Unusable(probed));
    }
    Ok(path)
}

fn folder_finding(path: &Path) -> Finding {
    surroundings::folder("WORKSPACE_DIR", path, FindingLevel::LeftOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_and_invalid_words_are_named() {
        assert_eq!(ids(" 12, 34 56,").unwrap(), [12, 34, 56]);
        assert!(ids("").unwrap().is_empty() && ids("none").unwrap().is_empty());
        for wrong in ["bob", "12,@34", "0", "-1", "everybody"] {
            assert!(ids(wrong).unwrap_err().to_string().contains("is not a Discord id"), "{wrong}");
        }
        assert_eq!(new_ids("100000000000000042,none").map_err(drop), Err(()));
        assert_eq!(new_ids("100000000000000042").unwrap(), [100_000_000_000_000_042]);
        assert!(new_ids("1").unwrap_err().to_string().contains("17 to 20 digits"));
        assert_eq!(format_ids(&[12, 34]), "12,34");
    }

    #[test]
    fn an_unknown_permission_is_answered_with_the_words() {
        assert_eq!(permission(" acceptEdits ").unwrap().word, "edit");
        assert!(permission("yolo").unwrap_err().to_string().contains("`everything`"));
    }

    #[test]
    fn a_working_directory_must_be_separate_from_the_settings() {
        let owner = tempfile::tempdir().unwrap();
        let (home, folder) = (owner.path(), owner.path().join(".config/aetheel"));
        let workspace = |text: &str| workspace(text, &folder, Some(home));
        assert_eq!(workspace("~/work").unwrap(), home.join("work"));
        let config = home.join(".config").display().to_string();
        for wrong in ["/", "~", "~/", &config, &format!("{config}/aetheel/work")] {
            assert!(workspace(wrong).unwrap_err().to_string().contains("separate"), "{wrong}");
        }
        assert!(
            super::workspace("~", &folder, None)
                .unwrap_err()
                .to_string()
                .contains("HOME is not set")
        );
        assert!(
            workspace("/proc/1/work").unwrap_err().to_string().contains("cannot be written to")
        );
        assert!(workspace(" ").is_err());
        assert!(workspace("/dev/null").unwrap_err().to_string().contains("not a folder"));
    }
}
