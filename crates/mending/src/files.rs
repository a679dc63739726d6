//! Reads and copies folders of sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aetheel_kit::mend::SourceFiles;

const MAX_FILE_BYTES: u64 = 4 << 20;
const MAX_FILES: usize = 5_000;
/// Folders that hold no sources.
const OUTPUT_FOLDERS: [&str; 2] = ["target", ".git"];

/// The reason why a folder of sources cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceFolderError {
    /// A file or folder cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The folder contains something other than files and folders, for example a link.
    #[error("{}: it is neither a file nor a folder", .0.display())]
    Kind(PathBuf),
    /// A file is too large, or there are too many.
    #[error("{}: there are more than {MAX_FILES} files, or one of more than {} MiB", .0.display(), MAX_FILE_BYTES >> 20)]
    Large(PathBuf),
    /// The folder does not contain the backend.
    #[error("{}: there is no `{backend}/Cargo.toml` and no `Cargo.toml` of a project", folder.display())]
    NoBackend {
        /// The folder.
        folder: PathBuf,
        /// The name of the backend.
        backend: String,
    },
}

impl SourceFolderError {
    fn read(path: &Path, error: io::Error) -> Self {
        Self::Read { path: path.to_owned(), error }
    }
}

/// Whether links are followed. They are in the operator's folder, and refused in an agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy<'a> {
    /// A link counts as its target.
    Followed,
    /// A link is an error.
    Refused,
    /// A link that this folder of the operator has too, with the same target, counts as what the
    /// operator's link leads to. Any other link is an error.
    AsIn(&'a Path),
}

/// Reads all files of a folder, without those that compilers write. Blocks.
///
/// # Errors
/// [`SourceFolderError`] with the first file or folder that cannot be used.
pub fn read(folder: &Path, links: LinkPolicy<'_>) -> Result<SourceFiles, SourceFolderError> {
    let mut files = SourceFiles::new();
    read_into(folder, "", links, &mut files)?;
    Ok(files)
}

fn read_into(
    folder: &Path,
    prefix: &str,
    links: LinkPolicy<'_>,
    files: &mut SourceFiles,
) -> Result<(), SourceFolderError> {
    for entry in fs::read_dir(folder).map_err(|error| SourceFolderError::read(folder, error))? {
        let mut path = entry.map_err(|error| SourceFolderError::read(folder, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let below = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let mut links = links;
        if let LinkPolicy::AsIn(original) = links {
            let original = original.join(&below);
            let target = fs::read_link(&path).ok();
            if target.is_some() && target == fs::read_link(&original).ok() {
                (path, links) = (original, LinkPolicy::Followed);
            }
        }
        let found = match links {
            LinkPolicy::Followed => fs::metadata(&path),
            LinkPolicy::Refused | LinkPolicy::AsIn(_) => fs::symlink_metadata(&path),
        };
        let found = found.map_err(|error| SourceFolderError::read(&path, error))?;
        if found.is_dir() {
            if !OUTPUT_FOLDERS.contains(&name.as_str()) {
                read_into(&path, &below, links, files)?;
            }
        } else if found.is_file() {
            if found.len() > MAX_FILE_BYTES || files.len() >= MAX_FILES {
                return Err(SourceFolderError::Large(path));
            }
            let bytes = fs::read(&path).map_err(|error| SourceFolderError::read(&path, error))?;
            files.insert(below, bytes);
        } else {
            return Err(SourceFolderError::Kind(path));
        }
    }
    Ok(())
}

/// Writes files into a folder. Blocks.
///
/// # Errors
/// [`SourceFolderError`] with the first file that cannot be written.
pub fn write(folder: &Path, files: &SourceFiles) -> Result<(), SourceFolderError> {
    for (name, bytes) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| SourceFolderError::read(parent, error))?;
        fs::write(&path, bytes).map_err(|error| SourceFolderError::read(&path, error))?;
    }
    Ok(())
}

/// Returns the folder of a backend's package below a folder of sources: `NAME` in a workspace of
/// several backends, or an empty text for a project with one backend.
///
/// # Errors
/// The files contain no such package.
pub fn package_of(
    files: &SourceFiles,
    folder: &Path,
    backend: &str,
) -> Result<String, SourceFolderError> {
    if files.contains_key(&format!("{backend}/Cargo.toml")) {
        return Ok(backend.to_owned());
    }
    let manifest = files.get("Cargo.toml").map(|bytes| String::from_utf8_lossy(bytes));
    match manifest {
        Some(text) if text.contains("[package]") => Ok(String::new()),
        _ => Err(SourceFolderError::NoBackend {
            folder: folder.to_owned(),
            backend: backend.to_owned(),
        }),
    }
}

/// Returns the folders of a backend's own sources below a folder of sources: `src` of its package
/// and of the packages below it, without those that run in the compiler. `package` is the result of
/// [`package_of`].
#[must_use]
pub fn sources_of(files: &SourceFiles, package: &str) -> Vec<String> {
    if package.is_empty() {
        return vec!["src".to_owned()];
    }
    let manifests = files.iter().filter_map(|(name, text)| {
        let folder = name.strip_suffix("/Cargo.toml")?;
        let is_own = Path::new(folder).starts_with(package);
        let is_macro = String::from_utf8_lossy(text).contains("proc-macro");
        (is_own && !is_macro).then(|| format!("{folder}/src"))
    });
    manifests.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_agents_links_are_refused_and_outputs_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let files = SourceFiles::from([
            ("a/src/lib.rs".to_owned(), b"x".to_vec()),
            ("a/Cargo.toml".to_owned(), b"[package]".to_vec()),
        ]);
        write(root, &files).unwrap();
        fs::create_dir(root.join("target")).unwrap();
        fs::write(root.join("target/large"), "").unwrap();
        assert_eq!(read(root, LinkPolicy::Refused).unwrap(), files);
        assert_eq!(package_of(&files, root, "a").unwrap(), "a");
        assert!(package_of(&files, root, "b").unwrap_err().to_string().contains("b/Cargo.toml"));
        let mut files = files;
        let manifest = |text: &str| text.as_bytes().to_vec();
        files.insert("a/client/Cargo.toml".to_owned(), manifest("[package]"));
        files.insert("a/macros/Cargo.toml".to_owned(), manifest("[lib]\nproc-macro = true"));
        files.insert("ab/Cargo.toml".to_owned(), manifest("[package]"));
        assert_eq!(sources_of(&files, "a"), ["a/src", "a/client/src"]);
        assert_eq!(sources_of(&files, ""), ["src"]);
        symlink("/etc/hostname", root.join("a/src/link.rs")).unwrap();
        assert!(matches!(read(root, LinkPolicy::Refused), Err(SourceFolderError::Kind(_))));
    }

    #[test]
    fn a_copy_may_have_the_links_of_the_original_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let [original, copy] = ["original", "copy"].map(|name| folder.path().join(name));
        fs::create_dir(folder.path().join("wit")).unwrap();
        fs::write(folder.path().join("wit/types.wit"), "interface").unwrap();
        for root in [&original, &copy] {
            fs::create_dir(root).unwrap();
            symlink("../wit", root.join("wit")).unwrap();
        }
        // The copy may be anywhere: the link is that of the operator.
        let moved = tempfile::tempdir().unwrap();
        symlink("../wit", moved.path().join("wit")).unwrap();
        for root in [copy.as_path(), moved.path()] {
            let files = read(root, LinkPolicy::AsIn(&original)).unwrap();
            assert_eq!(files, read(&original, LinkPolicy::Followed).unwrap());
        }
        symlink("/etc", moved.path().join("etc")).unwrap();
        let refused = read(moved.path(), LinkPolicy::AsIn(&original));
        assert!(matches!(refused, Err(SourceFolderError::Kind(_))));
    }
}
