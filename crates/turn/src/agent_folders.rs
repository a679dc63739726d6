//! Resolves the operator's symbolic links, but not those that an agent could have made.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// Maximum number of links in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The reason why a path has no usable form without links.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A part of the path is a link in a folder in which agents work.
    #[error(
        "{} leads through the symbolic link {}, which an agent may have made, because agents work in {}; name the path without this link, or move it out of that folder",
        path.display(), link.display(), folder.display()
    )]
    MadeByAgent {
        /// The path.
        path: PathBuf,
        /// The link.
        link: PathBuf,
        /// The folder in which agents work.
        folder: PathBuf,
    },
    /// The path does not exist, or this user cannot reach it.
    #[error(transparent)]
    Unreachable(#[from] io::Error),
}

/// The folders in which agents work, without links. An agent can put links into its folder, and the
/// folders of others may lie below it.
#[derive(Debug)]
pub struct AgentFolders(Vec<PathBuf>);

impl AgentFolders {
    /// Resolves the links of these folders. A folder that does not exist is left out.
    #[must_use]
    pub fn resolve(folders: &[PathBuf]) -> Self {
        Self(folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect())
    }

    /// Returns whether a path without links lies below one of the folders.
    #[must_use]
    pub fn contain(&self, path: &Path) -> bool {
        self.0.iter().any(|folder| path != folder && path.starts_with(folder))
    }

    /// Returns a path without links. The result must be opened without following links, because an
    /// agent can still make one.
    ///
    /// # Errors
    /// [`LinkError`] if the path does not exist, or if a link in one of the folders is a part of it.
    pub fn path_without_links(&self, path: &Path) -> Result<PathBuf, LinkError> {
        let absolute = std::path::absolute(path)?;
        let mut found = PathBuf::from("/");
        let mut parts: Vec<OsString> = reversed_parts(&absolute);
        let mut links = 0;
        while let Some(part) = parts.pop() {
            if part == ".." {
                found.pop();
                continue;
            }
            let next = found.join(&part);
            match fs::read_link(&next) {
                Ok(target) => {
                    if let Some(folder) = self.0.iter().find(|folder| found.starts_with(folder)) {
                        let (path, folder) = (path.to_owned(), folder.clone());
                        return Err(LinkError::MadeByAgent { path, link: next, folder });
                    }
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(io::Error::from(Errno::LOOP).into());
                    }
                    if target.is_absolute() {
                        found = PathBuf::from("/");
                    }
                    parts.extend(reversed_parts(&target));
                }
                // It exists and is not a link.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => found = next,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }
}

/// Returns the names in a path, the last one first. A root and `.` are left out.
fn reversed_parts(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_of_the_operator_are_resolved_and_those_in_the_folders_of_agents_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["data/set", "work/project/inner", "home"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        symlink(root.join("work"), root.join("projects")).unwrap();
        symlink("../data", root.join("home/data")).unwrap();
        symlink("data/../work/project", root.join("home/project")).unwrap();
        symlink("../home", root.join("work/project/out")).unwrap();
        symlink("project", root.join("work/alias")).unwrap();
        symlink("loop", root.join("home/loop")).unwrap();
        let folders = AgentFolders::resolve(&[root.join("projects"), root.join("missing")]);
        for path in ["data/set", "home/data/set", "home/project/inner", "projects/project", "."] {
            let path = root.join(path);
            let resolved = folders.path_without_links(&path).expect("resolved");
            assert_eq!(resolved, path.canonicalize().unwrap(), "{}", path.display());
        }
        for path in ["work/alias", "projects/alias/inner", "work/project/out", "home/project/out"] {
            let error = folders.path_without_links(&root.join(path)).unwrap_err();
            assert!(matches!(error, LinkError::MadeByAgent { .. }), "{path}: {error}");
        }
        for path in ["home/none", "home/loop"] {
            let error = folders.path_without_links(&root.join(path)).unwrap_err();
            assert!(matches!(error, LinkError::Unreachable(_)), "{path}: {error}");
        }
        assert!(
            folders.contain(&root.join("work/project")) && !folders.contain(&root.join("work"))
        );
    }
}
