//! Attaches files to a prompt by their paths: `@notes.md`, `@"two words.png"`, or the command
//! `/file`.

use std::io;
use std::path::{Path, PathBuf};

use aetheel_model::event::AttachedFile;
use aetheel_runtime::ordinary::read_ordinary;

/// The reason why a file cannot be attached to a prompt. `path` is as the person wrote it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    #[error("{path}: {error}")]
    NotFound {
        path: String,
        #[source]
        error: io::Error,
    },
    #[error("{0} is not a file")]
    NotAFile(String),
    #[error("{0}: its name is not UTF-8")]
    NotUtf8(String),
    /// The file was attached, but cannot be read now.
    #[error("{name:?} could not be read: {error}")]
    Read {
        name: String,
        #[source]
        error: io::Error,
    },
}

/// Finds existing files that a prompt names with `@`. Returns the prompt without the `@` of these
/// files, and the files.
pub(crate) fn extract_files(prompt: &str, home: Option<&Path>) -> (String, Vec<AttachedFile>) {
    let (mut text, mut files, mut rest) = (String::with_capacity(prompt.len()), Vec::new(), prompt);
    while let Some(at) = rest.find('@') {
        let (before, behind) = (&rest[..at], &rest[at + 1..]);
        text.push_str(before);
        let begins = text.is_empty() || text.ends_with(char::is_whitespace);
        match path(behind)
            .filter(|_| begins)
            .and_then(|(path, length)| Some((attach(path, home).ok()?, path, length)))
        {
            Some((file, path, length)) => {
                files.push(file);
                text.push_str(path);
                rest = &behind[length..];
            }
            None => {
                text.push('@');
                rest = behind;
            }
        }
    }
    text.push_str(rest);
    (text, files)
}

/// Returns the path at the start of a text, and the length that it takes.
fn path(text: &str) -> Option<(&str, usize)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"')?;
        return Some((&quoted[..end], end + 2));
    }
    let word = &text[..text.find(char::is_whitespace).unwrap_or(text.len())];
    let bare = word.trim_end_matches([',', ';', ':', '?', '!', ')', '.']);
    (!bare.is_empty()).then_some((bare, bare.len()))
}

/// Returns the file at a path.
///
/// # Errors
/// Returns [`AttachError`] if it cannot be attached.
pub(crate) fn attach(path: &str, home: Option<&Path>) -> Result<AttachedFile, AttachError> {
    let place = match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    };
    let not_found = |error| AttachError::NotFound { path: path.to_owned(), error };
    let place = std::path::absolute(place).map_err(not_found)?;
    let found = std::fs::metadata(&place).map_err(not_found)?;
    if !found.is_file() {
        return Err(AttachError::NotAFile(path.to_owned()));
    }
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let source = place.to_str().ok_or_else(|| AttachError::NotUtf8(path.to_owned()))?.to_owned();
    Ok(AttachedFile { name, media_type: None, size: found.len(), source })
}

/// Reads an attached file.
///
/// # Errors
/// Returns [`AttachError::Read`] if it cannot be read.
pub(crate) async fn read(file: &AttachedFile, limit: u64) -> Result<Vec<u8>, AttachError> {
    let (source, name) = (PathBuf::from(&file.source), file.name.clone());
    let read = tokio::task::spawn_blocking(move || read_ordinary(&source, limit)).await;
    read.map_err(io::Error::other).flatten().map_err(|error| AttachError::Read { name, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_files_are_attached() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.md", "two words.png"] {
            std::fs::write(folder.path().join(name), "12345").expect("written");
        }
        let at = folder.path().display();
        let prompt = format!(
            "Compare @{at}/a.md, @\"{at}/two words.png\" and @~/a.md; write to me@{at}/a.md or @nobody @{at} @"
        );
        let (text, files) = extract_files(&prompt, Some(folder.path()));
        assert_eq!(
            text,
            format!(
                "Compare {at}/a.md, {at}/two words.png and ~/a.md; write to me@{at}/a.md or @nobody @{at} @"
            )
        );
        let names: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.size)).collect();
        assert_eq!(names, [("a.md", 5), ("two words.png", 5), ("a.md", 5)]);
        assert!(
            attach("/nowhere/x", None).is_err_and(|error| error.to_string().contains("/nowhere/x"))
        );
        assert!(attach("/tmp", None).is_err_and(|error| error.to_string() == "/tmp is not a file"));
    }

    #[tokio::test]
    async fn a_file_is_read_up_to_its_limit() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "12345").expect("written");
        let file = attach(file.path().to_str().expect("UTF-8"), None).expect("it is there");
        assert_eq!(read(&file, 5).await.expect("it is small enough"), b"12345");
        assert!(read(&file, 4).await.is_err());
    }
}
