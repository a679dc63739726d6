//! `backends.lock.md`: which version of a backend came from which registry. With this file another
//! machine installs the same versions. Written by `aetheel backend install`; the gateway removes
//! versions that it rolls back.

use std::path::{Path, PathBuf};

use super::blocking::blocking;
use super::{DOCUMENT_LIMIT, FileError};
use crate::disk::{WORLD_READABLE_MODE, replace_for, text_of};
use aetheel_model::markdown::layout::SectionLayout;
use aetheel_model::markdown::sections::{Section, sections};
use aetheel_runtime::ordinary::read_ordinary;

const FILE: &str = "backends.lock.md";

const KEYS: [&str; 4] = ["from", "sha256", "cases", "proven-with"];

const LAYOUT: SectionLayout<'static> = SectionLayout {
    is_known: &|key| KEYS.contains(&key),
    may_repeat: &|_| false,
    aliases: &[],
    has_prompt: false,
};

const HEADING: &str = "# Backends from registries

`aetheel backend install oci://…` writes this file: one section for each file in BACKENDS_DIR that came from a registry.
`aetheel backend install --locked` installs exactly these versions, also on another machine. See docs/backends.md.
";

/// The reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackendLockError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A part of the file is invalid.
    #[error(
        "{FILE} line {line}: {reason}; hint: correct it, or remove the section and install that backend again"
    )]
    Invalid {
        /// The line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
}

/// A backend that came from a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedBackend {
    /// The name of its file in `BACKENDS_DIR`.
    pub file: String,
    /// Its reference in the registry, with the digest of its manifest.
    pub reference: String,
    /// The SHA-256 of the component, in lower-case hex.
    pub component: String,
    /// The digest of the cases that came with it.
    pub cases: Option<String>,
    /// The versions of the agent that made these cases, each with the number of cases.
    pub proven: Option<String>,
}

/// The content of the file, sorted by file name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendLock {
    path: PathBuf,
    entries: Vec<LockedBackend>,
}

impl BackendLock {
    /// Reads the file in a configuration folder; it is empty if it does not exist. Blocks.
    ///
    /// # Errors
    /// [`BackendLockError`] if the file cannot be read or is invalid.
    pub fn read(folder: &Path) -> Result<Self, BackendLockError> {
        let path = folder.join(FILE);
        let text = match read_ordinary(&path, DOCUMENT_LIMIT).and_then(text_of) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(FileError::new("read", &path, error).into()),
        };
        Ok(Self { path, entries: parse(&text)? })
    }

    /// Returns the backends.
    #[must_use]
    pub fn entries(&self) -> &[LockedBackend] {
        &self.entries
    }

    /// Returns the backend with this component, if its file has this name.
    #[must_use]
    pub fn find(&self, file: &str, component: &str) -> Option<&LockedBackend> {
        self.entries.iter().find(|entry| entry.file == file && entry.component == component)
    }

    /// Adds a backend, in place of another version in the same file.
    pub fn insert(&mut self, entry: LockedBackend) {
        self.remove(&entry.file);
        self.entries.push(entry);
        self.entries.sort_by(|a, b| a.file.cmp(&b.file));
    }

    /// Removes the entry of a file. Returns whether there was one.
    pub fn remove(&mut self, file: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.file != file);
        self.entries.len() != before
    }

    /// Writes the file. Blocks.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub fn save(&self) -> Result<(), FileError> {
        let text = HEADING.to_owned() + &self.entries.iter().map(section).collect::<String>();
        replace_for(&self.path, text.as_bytes(), WORLD_READABLE_MODE)
            .map(drop)
            .map_err(|error| FileError::new("write", &self.path, error))
    }

    /// Removes a version that was rolled back or withdrawn from the file of a configuration folder,
    /// so that `install --locked` does not bring it back.
    ///
    /// # Errors
    /// [`BackendLockError`]; the file is unchanged.
    pub async fn remove_version(folder: &Path, component: String) -> Result<(), BackendLockError> {
        let folder = folder.to_owned();
        blocking(move || {
            let mut lock = Self::read(&folder)?;
            let before = lock.entries.len();
            lock.entries.retain(|entry| entry.component != component);
            if lock.entries.len() != before {
                lock.save()?;
            }
            Ok(())
        })
        .await
    }
}

fn section(entry: &LockedBackend) -> String {
    let LockedBackend { file, reference, component, cases, proven } = entry;
    let further = |key: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!("- {key}: {value}\n")).unwrap_or_default()
    };
    format!(
        "\n## {file}\n\n- from: {reference}\n- sha256: {component}\n{}{}",
        further("cases", cases),
        further("proven-with", proven)
    )
}

fn parse(text: &str) -> Result<Vec<LockedBackend>, BackendLockError> {
    let (sections, strange) = sections(text);
    let layout = LAYOUT.faults(text).into_iter().map(|(line, error)| (line, error.to_string()));
    if let Some((line, reason)) = strange.into_iter().chain(layout).next() {
        return Err(BackendLockError::Invalid { line, reason });
    }
    sections.iter().map(read_section).collect()
}

fn read_section(section: &Section) -> Result<LockedBackend, BackendLockError> {
    let mut values = [None, None, None, None];
    for entry in &section.entries {
        let Some(at) = KEYS.iter().position(|key| *key == entry.key) else {
            let reason = format!("`{}` is unknown here", entry.key);
            return Err(BackendLockError::Invalid { line: entry.line, reason });
        };
        values[at] = Some(entry.text().to_owned());
    }
    let [reference, component, cases, proven] = values;
    let missing = |key: &str| BackendLockError::Invalid {
        line: section.line,
        reason: format!("`{key}` is missing"),
    };
    Ok(LockedBackend {
        file: section.title.clone(),
        reference: reference.ok_or_else(|| missing("from"))?,
        component: component.ok_or_else(|| missing("sha256"))?,
        cases,
        proven,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written_and_faults_name_their_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut lock = BackendLock::read(folder.path()).expect("read");
        assert_eq!(lock.entries(), []);
        let first = LockedBackend {
            file: "mini.wasm".to_owned(),
            reference: format!("oci://registry.example:5000/mini:1@sha256:{}", "a".repeat(64)),
            component: "b".repeat(64),
            cases: Some(format!("sha256:{}", "c".repeat(64))),
            proven: Some("1.0.0 (2 cases), 1.1.0 (1 case)".to_owned()),
        };
        let second =
            LockedBackend { file: "a.wasm".to_owned(), cases: None, proven: None, ..first.clone() };
        lock.insert(LockedBackend { component: "d".repeat(64), ..first.clone() });
        lock.insert(first.clone());
        lock.insert(second.clone());
        lock.save().expect("saved");
        let mut again = BackendLock::read(folder.path()).expect("read");
        assert_eq!((again.entries(), &again), (&[second, first.clone()][..], &lock));
        assert_eq!(again.find("mini.wasm", &first.component), Some(&first));
        assert_eq!(again.find("mini.wasm", "other"), None);
        assert!(again.remove("a.wasm") && !again.remove("a.wasm"));
        for (text, says) in [
            ("## a.wasm\n\n- from: oci://h/n:1\n", "line 1: `sha256` is missing"),
            ("## a.wasm\n\n- sha256: 1\n- form: x\n", "line 4: `form` is unknown"),
            ("### a.wasm\n- from: x\n- sha256: 1\n", "line 1: this heading begins no section"),
            ("## a.wasm\n- from: x\n  - cases: y\n- sha256: 1\n", "line 3: `cases` is not read"),
        ] {
            std::fs::write(folder.path().join(FILE), text).expect("written");
            let error = BackendLock::read(folder.path()).expect_err(text).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
