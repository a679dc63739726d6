//! Test cases: recordings with the actions that are expected for them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{ParsedRecording, ReadError};
use aetheel_model::agent::Action;

/// Suffix of the files with expected actions.
const ACTIONS: &str = ".actions.jsonl";

/// The reason why a test case cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A file or a folder cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The path of the file or of the folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The recording cannot be parsed.
    #[error("{}", with_file_position(path, error))]
    Recording {
        /// The path of the recording.
        path: PathBuf,
        /// The reader's error.
        error: ReadError,
    },
    /// A line of the expected actions cannot be parsed.
    #[error("{}:{line}: not an action: {error}", path.display())]
    Action {
        /// The path of the file with the expected actions.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The parser's error.
        #[source]
        error: serde_json::Error,
    },
    /// A folder contains no recordings.
    #[error("{}: there is no recording (`*.jsonl`) in this folder", .0.display())]
    NoRecordings(PathBuf),
}

impl CaseError {
    fn read(path: &Path, error: io::Error) -> Self {
        Self::Read { path: path.to_owned(), error }
    }
}

/// A recording and its expected actions.
#[derive(Clone, Debug)]
pub struct Case {
    /// The path of the recording.
    pub path: PathBuf,
    /// The content of that file.
    pub tape: ParsedRecording,
    /// The expected actions, from the file beside it; `None` if there is no such file.
    pub actions: Option<Vec<Action>>,
}

impl Case {
    /// Reads a recording and, if it exists, the file with expected actions beside it.
    ///
    /// # Errors
    /// Returns an error that names the file, and the line if known.
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let text = fs::read_to_string(path).map_err(|error| CaseError::read(path, error))?;
        let tape = ParsedRecording::read(&text)
            .map_err(|error| CaseError::Recording { path: path.to_owned(), error })?;
        let beside = actions_beside(path);
        let actions = match fs::read_to_string(&beside) {
            Ok(text) => Some(read_actions(&beside, &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(CaseError::read(&beside, error)),
        };
        Ok(Self { path: path.to_owned(), tape, actions })
    }

    /// Returns the position of an entry as `file:line`.
    #[must_use]
    pub fn position(&self, entry: usize) -> String {
        match self.tape.lines.get(entry) {
            Some(line) => format!("{}:{line}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }
}

/// Returns the path of the expected actions: `NAME.actions.jsonl` for `NAME.jsonl`.
#[must_use]
pub fn actions_beside(recording: &Path) -> PathBuf {
    let name = recording.file_name().unwrap_or_default().to_string_lossy();
    recording.with_file_name(format!("{}{ACTIONS}", name.strip_suffix(".jsonl").unwrap_or(&name)))
}

fn read_actions(path: &Path, text: &str) -> Result<Vec<Action>, CaseError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parsed = lines.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| CaseError::Action {
            path: path.to_owned(),
            line: number + 1,
            error,
        })
    });
    parsed.collect()
}

/// Describes an error of the reader as `PATH:LINE: error`, or as `PATH: error` if it concerns no
/// line.
fn with_file_position(path: &Path, error: &ReadError) -> String {
    let path = path.display();
    match error {
        ReadError::Header(error) => format!("{path}:1: is not a recording's header: {error}"),
        ReadError::Entry { line, error } => format!("{path}:{line}: {error}"),
        ReadError::Empty | ReadError::Format(_) => format!("{path}: {error}"),
    }
}

/// Returns the recordings at these paths, sorted within each folder. Folders are searched
/// recursively.
///
/// # Errors
/// Returns an error if a path does not exist, or if a folder has no recordings.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CaseError> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| CaseError::read(path, error))?;
        if metadata.is_dir() {
            let before = found.len();
            collect_recordings(path, &mut found).map_err(|error| CaseError::read(path, error))?;
            if found.len() == before {
                return Err(CaseError::NoRecordings(path.clone()));
            }
            found[before..].sort();
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn collect_recordings(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_recordings(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "jsonl")
            && !path.to_string_lossy().ends_with(ACTIONS)
        {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"aetheel-recording":1,"link":"l","backend":"b","backend-version":"1","generation":1,"digest":"","agent-version":null,"started":""}"#;

    #[test]
    fn folders_give_their_recordings_without_expected_actions() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        for name in ["b.jsonl", "a.jsonl", "a.actions.jsonl", "in/c.jsonl", "readme.md"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = find(&[folder.path().to_owned()]).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["a.jsonl", "b.jsonl", "in/c.jsonl"]);
        assert!(find(&[folder.path().join("none")]).unwrap_err().to_string().contains("none"));
        let empty = tempfile::tempdir().unwrap();
        assert!(find(&[empty.path().to_owned()]).unwrap_err().to_string().contains("no recording"));
    }

    #[test]
    fn errors_name_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        fs::write(&path, format!("{HEADER}\n{{\"t\":0,\"in\":{{\"timer\":1}}}}\n{{\"t\":1}}\n"))
            .unwrap();
        assert!(
            Case::read(&path).unwrap_err().to_string().contains("x.jsonl:3: "),
            "{:?}",
            Case::read(&path)
        );
        fs::write(&path, "hello\n").unwrap();
        assert!(
            Case::read(&path)
                .unwrap_err()
                .to_string()
                .contains("x.jsonl:1: is not a recording's header"),
            "{:?}",
            Case::read(&path)
        );
        fs::write(&path, format!("{HEADER}\n")).unwrap();
        assert_eq!(Case::read(&path).unwrap().actions, None);
        fs::write(actions_beside(&path), "{\"close-stdin\":1}\n{\"nonsense\":1}\n").unwrap();
        assert!(
            Case::read(&path).unwrap_err().to_string().contains("x.actions.jsonl:2: not an action"),
            "{:?}",
            Case::read(&path)
        );
    }
}
