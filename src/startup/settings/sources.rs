//! Reads settings from the sources other than the environment: an env file, the service manager's
//! credentials, and a file descriptor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::env_file::EnvFile;
use aetheel_model::redact::is_secret_name;
use aetheel_process::take_descriptor;
use aetheel_runtime::ordinary::read_ordinary;

/// Largest size of a file or stream of settings, in bytes.
const MAX_SOURCE_BYTES: u64 = 1 << 20;
/// Variable with the path of the folder of credentials (systemd.exec(5)).
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Settings from the sources other than the environment.
#[derive(Debug, Default)]
pub(super) struct SourceValues {
    /// The values, by name.
    pub values: HashMap<String, String>,
    /// The names in order of reading, each with its file and line, for warnings about unknown ones.
    pub origins: Vec<(String, String)>,
    /// Files with secrets that still exist while the gateway runs.
    pub secret_files: Vec<PathBuf>,
    /// Files and lines that cannot be read.
    pub faults: Vec<String>,
    /// Whether an env file could not be read at all.
    pub is_unreadable: bool,
    /// Values that may be interpreted differently than the operator expects.
    pub warnings: Vec<String>,
}

impl SourceValues {
    /// Reads all sources. A value of a later source replaces one of an earlier source.
    pub(super) fn read(
        env_file: Option<&Path>,
        credentials: Option<&Path>,
        descriptor: Option<i32>,
    ) -> Self {
        let mut found = Self::default();
        if let Some(path) = env_file {
            found.env_file(path);
        }
        if let Some(folder) = credentials {
            found.credentials(folder);
        }
        if let Some(number) = descriptor {
            found.descriptor(number);
        }
        found
    }

    pub(super) fn env_file(&mut self, path: &Path) {
        let shown = path.display().to_string();
        match read_ordinary(path, MAX_SOURCE_BYTES) {
            Ok(content) => {
                // Without the settings of the file, other faults would only be consequences.
                self.is_unreadable |= std::str::from_utf8(&content).is_err();
                if self.merge(EnvFile::parse(&content), &shown) {
                    self.secret_files.push(path.to_owned());
                }
            }
            Err(error) => {
                let hint = "use `--secrets-fd` to pass the output of a program";
                let hint = if error.to_string().contains("pipe") {
                    format!("; {hint}")
                } else {
                    String::new()
                };
                self.is_unreadable = true;
                self.faults.push(format!("cannot read the env file {shown}: {error}{hint}"));
            }
        }
    }

    /// Reads one setting from each file that is named like a setting. Ignores other files.
    fn credentials(&mut self, folder: &Path) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                return self.faults.push(format!(
                    "{CREDENTIALS}: cannot look into {}: {error}",
                    folder.display()
                ));
            }
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let Some(name) =
                path.file_name().and_then(|name| name.to_str()).filter(|name| is_name(name))
            else {
                continue;
            };
            let text = read_ordinary(&path, MAX_SOURCE_BYTES).map_err(|error| error.to_string());
            match text.and_then(|bytes| {
                String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
            }) {
                Ok(text) => {
                    self.values
                        .insert(name.to_owned(), text.trim_end_matches(['\r', '\n']).to_owned());
                    self.origins.push((name.to_owned(), path.display().to_string()));
                    self.secret_files.push(path);
                }
                Err(error) => self
                    .faults
                    .push(format!("cannot read the credential {}: {error}", path.display())),
            }
        }
    }

    fn descriptor(&mut self, number: i32) {
        let shown = format!("descriptor {number}");
        match take_descriptor(number, usize::try_from(MAX_SOURCE_BYTES).unwrap_or(usize::MAX)) {
            Ok(content) => drop(self.merge(EnvFile::parse(&content), &shown)),
            Err(error) => self.faults.push(format!("--secrets-fd {number}: {error}")),
        }
    }

    /// Adds the values and problems of an env file. Returns whether it contains a secret.
    fn merge(&mut self, file: EnvFile, shown: &str) -> bool {
        self.faults.extend(file.faults.iter().map(|fault| format!("{shown}: {fault}")));
        self.warnings.extend(file.warnings.iter().map(|warning| format!("{shown}: {warning}")));
        let secret = file
            .values
            .iter()
            .any(|(name, (value, _))| is_secret_name(name) && !value.trim().is_empty());
        for (name, (value, line)) in file.values {
            self.origins.push((name.clone(), format!("{shown}: line {line}")));
            self.values.insert(name, value);
        }
        secret
    }
}

/// Returns the folder of credentials, if the service manager set one.
pub(super) fn credentials() -> Option<PathBuf> {
    std::env::var_os(CREDENTIALS).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Returns whether a text has the form of a setting's name.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn credentials_are_read_by_name_and_their_files_are_recorded() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("DISCORD_BOT_TOKEN"), "a.b.c\n").expect("written");
        fs::write(folder.path().join("tls.pem"), "key").expect("written");
        fs::create_dir(folder.path().join("STRANGE")).expect("made");
        let found = SourceValues::read(None, Some(folder.path()), None);
        assert_eq!(
            found.values,
            HashMap::from([("DISCORD_BOT_TOKEN".to_owned(), "a.b.c".to_owned())])
        );
        assert_eq!(found.secret_files, [folder.path().join("DISCORD_BOT_TOKEN")]);
        assert!(
            found.faults.len() == 1 && found.faults[0].contains("STRANGE: it is a folder"),
            "{:?}",
            found.faults
        );
        let missing = SourceValues::read(None, Some(Path::new("/nonexistent")), None);
        assert!(missing.faults[0].contains("/nonexistent"), "{:?}", missing.faults);
    }

    #[test]
    fn only_files_with_secrets_are_recorded() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("env");
        for (text, secret) in [
            ("LOG_LEVEL=info\n", false),
            ("DISCORD_BOT_TOKEN=\n", false),
            ("DISCORD_BOT_TOKEN=x\n", true),
        ] {
            fs::write(&path, text).expect("written");
            assert_eq!(
                !SourceValues::read(Some(&path), None, None).secret_files.is_empty(),
                secret,
                "{text}"
            );
        }
    }

    #[test]
    fn a_path_that_is_not_a_file_is_a_problem() {
        for (path, what) in
            [("/", "a folder"), ("/dev/zero", "a device"), ("/nonexistent.env", "No such file")]
        {
            let found = SourceValues::read(Some(Path::new(path)), None, None);
            assert!(
                found.faults.len() == 1 && found.faults[0].contains(what),
                "{path}: {:?}",
                found.faults
            );
        }
    }
}
