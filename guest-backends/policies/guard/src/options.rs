//! The operator's options: the content of `guard.json`.

use serde::Deserialize;

/// Commands that only read, whatever their arguments are. Commands that can also write a file or
/// start a program, such as `find`, `sort`, `sed` and `git`, are not among them.
const COMMANDS: [&str; 20] = [
    "basename", "cat", "cmp", "cut", "df", "dirname", "du", "echo", "false", "grep", "head", "ls",
    "nl", "pwd", "stat", "tail", "tr", "true", "uname", "wc",
];

/// The rules of the policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct GuardOptions {
    /// The commands that are allowed if they only read. An entry of several words, for example
    /// `git status`, allows exactly these words and nothing else.
    pub commands: Vec<String>,
    /// Whether allowed commands and tools may read files outside of the working directory.
    pub read_outside: bool,
    /// The decision about writing outside of the working directory.
    pub write_outside: Outside,
    /// Folders outside of the working directory that count as inside.
    pub also_inside: Vec<String>,
}

/// A decision about writing outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outside {
    /// It is denied.
    Deny,
    /// People are asked.
    Ask,
}

impl Default for GuardOptions {
    fn default() -> Self {
        Self {
            commands: COMMANDS.map(str::to_owned).to_vec(),
            read_outside: false,
            write_outside: Outside::Deny,
            also_inside: Vec::new(),
        }
    }
}

impl GuardOptions {
    /// Parses the text of the file, which is empty if there is no file.
    ///
    /// # Errors
    /// Explains the first problem, for the operator.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let options: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match options.also_inside.iter().find(|folder| !folder.starts_with('/')) {
            Some(folder) => Err(format!("`also-inside` {folder:?} is not an absolute path")),
            None => Ok(options),
        }
    }

    /// Returns whether an absolute path without `.` and `..` is in one of the further folders.
    #[must_use]
    pub fn is_inside(&self, path: &str) -> bool {
        self.also_inside.iter().any(|folder| {
            let rest = path.strip_prefix(folder.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}
