//! The identity of a working directory, for uses of files and for claims.
//!
//! On one machine it is the path without links. In a cluster, the same path on two machines is
//! usually not the same directory. Two directories count as the same only if the operator says so
//! (`shared-directory: yes`), both belong to the same project, and both have the same inode number,
//! which a copy does not have.

use std::path::{Path, PathBuf};

use rustix::fs::fstat;

use aetheel_store::workspace::LaneSettings;
use aetheel_turn::WorkingDirectory;

/// The beginning of the identity of a shared directory. No absolute path begins with it.
const SHARED: &str = "shared:";

/// A working directory.
#[derive(Clone, Debug)]
pub(crate) struct CheckoutPlace {
    pub(crate) directory: PathBuf,
    /// The project, if its directory is the same one on all machines of the cluster.
    project: Option<String>,
}

impl CheckoutPlace {
    /// Returns the place of a lane's directory. `is_cluster` is whether there may be other machines.
    pub(crate) fn of(directory: &Path, settings: &LaneSettings, is_cluster: bool) -> Self {
        let is_shared = is_cluster && settings.shared_directory == Some(true);
        let project = settings.project.as_ref().filter(|_| is_shared);
        Self { directory: directory.to_owned(), project: project.cloned() }
    }

    /// Returns the identity of the opened directory. Blocks.
    pub(crate) fn identity(&self, opened: &WorkingDirectory) -> PathBuf {
        let Some(project) = &self.project else { return opened.path().to_owned() };
        match fstat(opened.handle()) {
            Ok(found) => {
                let project = project.replace('/', "-");
                PathBuf::from(format!("{SHARED}{project}:{}", found.st_ino))
            }
            Err(_) => opened.path().to_owned(),
        }
    }
}

/// Returns whether an identity, or the path of a file below it, is that of a shared directory.
pub(crate) fn is_shared(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with(SHARED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_shared_only_with_its_project_and_the_operators_consent() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = |project: Option<&str>, shared_directory| LaneSettings {
            project: project.map(str::to_owned),
            shared_directory,
            ..LaneSettings::default()
        };
        let of = |settings: &LaneSettings, is_cluster, path: &Path| {
            let opened = WorkingDirectory::open(path).expect("opened");
            CheckoutPlace::of(path, settings, is_cluster).identity(&opened)
        };
        let shared = settings(Some("site"), Some(true));
        let identity = of(&shared, true, folder.path());
        assert!(is_shared(&identity) && is_shared(&identity.join("a.rs")), "{identity:?}");
        let copy = tempfile::tempdir().expect("a folder");
        assert_ne!(of(&shared, true, copy.path()), identity);
        let other = of(&settings(Some("b"), Some(true)), true, folder.path());
        assert_ne!(other, identity);
        for (settings, is_cluster) in [
            (&shared, false),
            (&settings(None, Some(true)), true),
            (&settings(Some("site"), None), true),
        ] {
            assert_eq!(of(settings, is_cluster, folder.path()), folder.path());
        }
        assert!(!is_shared(Path::new("/srv/shared:site:7/a.rs")));
    }
}
