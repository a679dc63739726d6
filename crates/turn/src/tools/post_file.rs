//! The tool `aetheel_post_file`: a file of the working directory becomes part of the answer.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Deserialize;

use super::input::HostToolInput;
use crate::working_directory::{WorkingDirectory, WorkingDirectoryError};
use aetheel_model::agent::{Artifact, ArtifactBody};
use aetheel_model::plain::one_line;

/// Maximum size of a file, in bytes. In base64, it has at most the 8 MiB of other artifacts.
const MAX_FILE_BYTES: u64 = 6 << 20;
/// Maximum length of a path in messages, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// Attaches a file from the working directory to your answer, so that the people who read the answer
/// in the chat can open it. Use it for results that do not fit into text, such as images, documents
/// and archives. The file is sent with the answer at the end of the turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) struct PostFile {
    /// Path of the file, relative to the working directory or absolute. The file must be inside the
    /// working directory and have at most 6 MiB.
    path: String,
    /// File name for the readers. The default is the name of the file.
    name: Option<String>,
}

impl HostToolInput for PostFile {}

/// The reason why a file cannot be posted. The model gets the text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostFileError {
    /// The path leads out of the working directory, possibly through a symbolic link.
    #[error(
        "`{0}` is outside of the working directory; copy the file into the working directory and post the copy"
    )]
    Outside(String),
    /// The working directory cannot be opened, for example because it was replaced by a link.
    #[error(transparent)]
    Directory(#[from] WorkingDirectoryError),
    /// There is no such file.
    #[error("there is no file `{0}`; check the path and call the tool again")]
    Missing(String),
    /// The path names a folder, a device or a pipe.
    #[error("`{0}` is not a regular file; to post a folder, put it into an archive")]
    NotAFile(String),
    /// The file is too large.
    #[error("`{0}` has {1} bytes, the limit is {MAX_FILE_BYTES}; compress it or split it")]
    TooLarge(String, u64),
    /// The system refuses to read the file.
    #[error("`{0}` cannot be read: {1}")]
    Unreadable(String, #[source] io::Error),
    /// Reading takes too long.
    #[error("reading `{0}` takes too long")]
    Timeout(String),
}

impl PostFile {
    /// Returns the path for messages.
    pub(crate) fn shown_path(&self) -> String {
        one_line(&self.path).replace('`', "'").chars().take(MAX_SHOWN_CHARS).collect()
    }

    /// Reads the file. No symbolic link is followed out of `cwd`. Blocks.
    ///
    /// # Errors
    /// [`PostFileError`] if the file is not a regular file below `cwd`, is too large, or cannot be
    /// read.
    pub(crate) fn read(&self, cwd: &Path) -> Result<Artifact, PostFileError> {
        let path = self.shown_path();
        let unreadable = |error: io::Error| PostFileError::Unreadable(path.clone(), error);
        let inside = self.relative_to(cwd).ok_or_else(|| PostFileError::Outside(path.clone()))?;
        let folder = WorkingDirectory::open(cwd)?;
        let file = folder.open_file(&inside).map_err(|error| match error {
            Errno::XDEV | Errno::LOOP => PostFileError::Outside(path.clone()),
            Errno::NOENT | Errno::NOTDIR => PostFileError::Missing(path.clone()),
            Errno::NXIO => PostFileError::NotAFile(path.clone()),
            other => unreadable(other.into()),
        })?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(PostFileError::NotAFile(path));
        }
        if metadata.len() > MAX_FILE_BYTES {
            return Err(PostFileError::TooLarge(path, metadata.len()));
        }
        let mut bytes = Vec::new();
        // The file may grow while it is read.
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(PostFileError::TooLarge(path, bytes.len() as u64));
        }
        let own_name = inside.file_name().map(|name| name.to_string_lossy().into_owned());
        let given = self.name.clone().filter(|name| !name.trim().is_empty());
        let media_type = media_type(&inside).to_owned();
        Ok(Artifact { name: given.or(own_name), media_type, body: body(bytes), tool: None })
    }

    /// Returns the path relative to a folder, or `None` if an absolute path does not begin with it.
    fn relative_to(&self, cwd: &Path) -> Option<PathBuf> {
        let path = Path::new(&self.path);
        if self.path.trim().is_empty() || self.path.contains('\0') {
            return None;
        }
        if path.is_relative() {
            return Some(path.to_owned());
        }
        path.strip_prefix(cwd).ok().map(Path::to_owned)
    }
}

/// Returns the content as text if it is text, so that secrets in it can be removed.
fn body(bytes: Vec<u8>) -> ArtifactBody {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => ArtifactBody::Text(text),
        Ok(text) => ArtifactBody::Base64(STANDARD.encode(text)),
        Err(error) => ArtifactBody::Base64(STANDARD.encode(error.as_bytes())),
    }
}

/// Returns the media type for the extension of a file name.
fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "md" => "text/markdown",
        "html" | "htm" => "text/html",
        "txt" | "log" | "csv" => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use rustix::fs::{FileType, Mode};

    use super::*;

    fn post(path: &str) -> PostFile {
        PostFile { path: path.to_owned(), name: None }
    }

    #[test]
    fn only_regular_files_below_the_working_directory_are_read() {
        let (cwd, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("secret"), "precious").unwrap();
        std::fs::create_dir(cwd.path().join("sub")).unwrap();
        std::fs::write(cwd.path().join("sub/a.txt"), "hello").unwrap();
        symlink(outside.path().join("secret"), cwd.path().join("file-link")).unwrap();
        symlink(outside.path(), cwd.path().join("folder-link")).unwrap();
        symlink("sub/a.txt", cwd.path().join("inner-link")).unwrap();
        symlink("loop", cwd.path().join("loop")).unwrap();
        let read = |path: &str| post(path).read(cwd.path());
        let absolute = cwd.path().join("sub/a.txt");
        for inside in ["sub/a.txt", "./sub/../sub/a.txt", "inner-link", absolute.to_str().unwrap()]
        {
            let artifact = read(inside).expect(inside);
            assert_eq!(artifact.body, ArtifactBody::Text("hello".to_owned()), "{inside}");
        }
        let secret = outside.path().join("secret");
        let name = outside.path().file_name().unwrap().to_str().unwrap();
        let above = format!("../{name}/secret");
        let through = format!("{}/../{name}/secret", cwd.path().display());
        for path in [
            "file-link",
            "folder-link/secret",
            &above,
            &through,
            secret.to_str().unwrap(),
            "",
            "loop",
        ] {
            assert!(matches!(read(path), Err(PostFileError::Outside(_))), "{path}");
        }
        assert!(matches!(read("no"), Err(PostFileError::Missing(_))));
        for path in ["sub", "."] {
            assert!(matches!(read(path), Err(PostFileError::NotAFile(_))), "{path}");
        }
    }

    #[test]
    fn nothing_is_read_through_a_working_directory_that_was_replaced_by_a_link() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work/proj", "state"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("state/holder.key"), "precious").unwrap();
        let cwd = folder.path().join("work/proj");
        std::fs::remove_dir(&cwd).unwrap();
        for (target, path) in [
            (folder.path().join("state"), "holder.key"),
            (PathBuf::from("../state"), "holder.key"),
            (PathBuf::from("/proc/self"), "maps"),
        ] {
            symlink(target, &cwd).unwrap();
            let absolute = cwd.join(path);
            for path in [path, absolute.to_str().unwrap()] {
                let read = post(path).read(&cwd);
                assert!(matches!(read, Err(PostFileError::Directory(_))), "{path}: {read:?}");
            }
            std::fs::remove_file(&cwd).unwrap();
        }
    }

    #[test]
    fn a_pipe_does_not_block_and_a_large_file_is_refused() {
        let cwd = tempfile::tempdir().unwrap();
        let pipe = cwd.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let read = post("pipe").read(cwd.path());
        assert!(matches!(read, Err(PostFileError::NotAFile(_))), "{read:?}");
        let large = File::create(cwd.path().join("large")).unwrap();
        large.set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(post("large").read(cwd.path()), Err(PostFileError::TooLarge(..))));
        large.set_len(MAX_FILE_BYTES).unwrap();
        assert!(post("large").read(cwd.path()).is_ok());
    }

    #[test]
    fn text_stays_text_and_other_content_becomes_base64() {
        let cwd = tempfile::tempdir().unwrap();
        std::fs::write(cwd.path().join("a.png"), [0x89, b'P', 0xff]).unwrap();
        let named = PostFile { name: Some("plot".to_owned()), ..post("a.png") };
        let artifact = named.read(cwd.path()).unwrap();
        assert_eq!(artifact.name.as_deref(), Some("plot"));
        assert_eq!(artifact.media_type, "image/png");
        assert_eq!(artifact.body, ArtifactBody::Base64("iVD/".to_owned()));
    }
}
