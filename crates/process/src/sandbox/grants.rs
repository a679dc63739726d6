//! Computes the paths that are granted to an agent: without links, and without the hidden paths.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::system_paths::OpenedPath;
use super::{SandboxError, installation, system_paths};
use aetheel_turn::{AgentFolders, LinkError, Reach, WorkingDirectory};

/// Granted paths, without links. Each existed when the grants were computed.
#[derive(Debug, Default)]
pub(super) struct Grants {
    pub(super) read: BTreeSet<PathBuf>,
    pub(super) write: BTreeSet<PathBuf>,
    /// Handles of some of these paths.
    pub(super) opened: Vec<Arc<OpenedPath>>,
    /// Handles of the working directory and of the paths in folders in which agents work. An agent
    /// may exchange them at any time.
    pub(super) exchangeable: Vec<Arc<OpenedPath>>,
}

/// Computes the grants of a program.
///
/// A path below another writable path is not resolved, because an agent may have replaced it by a
/// link to any other path. For the same reason, the working directory is the opened one, and no
/// link is followed in a folder in which agents work.
///
/// # Errors
/// [`SandboxError`] if a path would be granted that contains a hidden path, or is inside one, or
/// that leads through a link that an agent may have made.
pub(super) fn compute(
    reach: &Reach,
    program: &Path,
    path: &OsStr,
    cwd: Option<&WorkingDirectory>,
) -> Result<Grants, SandboxError> {
    let resolved =
        |paths: &[PathBuf]| -> Vec<PathBuf> { paths.iter().map(|path| resolve(path)).collect() };
    let (hidden, read_only) = (resolved(&reach.hidden), resolved(&reach.read_only));
    let folders = AgentFolders::resolve(&reach.agent_folders);
    let mut granted = Grants::default();
    let mut write: Vec<&PathBuf> = reach.write.iter().collect();
    write.sort();
    let mut asked: Vec<&Path> = Vec::new();
    for wanted in write {
        if asked.iter().any(|wider| wanted.starts_with(wider)) {
            continue;
        }
        let Some(opened) = open_granted(wanted, cwd, &folders)? else { continue };
        let place = opened.path.clone();
        let is_same = |own: &PathBuf| opened.is_same_file(own);
        if let Some(own) = hidden
            .iter()
            .chain(&read_only)
            .find(|own| own.starts_with(&place) || place.starts_with(own) || is_same(own))
        {
            return Err(SandboxError::WritesOwnFiles {
                granted: wanted.clone(),
                inside: place.starts_with(own) || is_same(own),
                own: own.clone(),
            });
        }
        granted.opened.push(Arc::new(opened));
        asked.push(wanted);
        granted.write.insert(place);
    }
    for wanted in &reach.read {
        if asked.iter().any(|wider| wanted.starts_with(wider)) {
            continue;
        }
        let Some(opened) = open_granted(wanted, cwd, &folders)? else { continue };
        if let Some(own) = hidden.iter().find(|own| opened.path.starts_with(own)) {
            return Err(SandboxError::ReadsOwnFiles { granted: wanted.clone(), own: own.clone() });
        }
        if grant_around(&opened.path, &hidden, &mut granted.read) {
            granted.opened.push(Arc::new(opened));
        }
    }
    for folder in system_paths::FOLDERS.iter().filter_map(|name| system_paths::get(name)) {
        if grant_around(&folder.path, &hidden, &mut granted.read) {
            granted.opened.push(folder);
        }
    }
    let further = reach.programs.iter().map(PathBuf::as_path).filter(|other| *other != program);
    let programs = further.chain([program]);
    for place in programs.flat_map(|program| installation::paths_of(program, path)) {
        grant_around(&place, &hidden, &mut granted.read);
    }
    granted.open_exchangeable(|place| {
        folders.contain(place) || cwd.is_some_and(|cwd| cwd.path() == place)
    });
    Ok(granted)
}

impl Grants {
    /// Opens the paths that an agent may exchange. A path that was exchanged meanwhile is not
    /// granted.
    fn open_exchangeable(&mut self, is_exchangeable: impl Fn(&Path) -> bool) {
        let (opened, exchangeable) = (&self.opened, &mut self.exchangeable);
        let mut open = |place: &PathBuf| {
            if !is_exchangeable(place) {
                return true;
            }
            let known = opened.iter().find(|opened| opened.path == *place).cloned();
            let found = known.or_else(|| OpenedPath::open(place.clone()).ok().map(Arc::new));
            let is_there = found.is_some();
            exchangeable.extend(found);
            is_there
        };
        self.read.retain(&mut open);
        self.write.retain(open);
        self.opened.extend(self.exchangeable.iter().cloned());
    }
}

/// Opens a path that is to be granted. Returns `None` if it does not exist, or if something was
/// exchanged meanwhile.
///
/// # Errors
/// [`SandboxError::Link`]
fn open_granted(
    wanted: &Path,
    cwd: Option<&WorkingDirectory>,
    folders: &AgentFolders,
) -> Result<Option<OpenedPath>, SandboxError> {
    let is_named = |cwd: &&WorkingDirectory| cwd.named() == wanted || cwd.path() == wanted;
    if let Some(cwd) = cwd.filter(is_named) {
        return Ok(OpenedPath::of_directory(cwd).ok());
    }
    match folders.path_without_links(wanted) {
        Ok(path) => Ok(OpenedPath::open(path).ok()),
        Err(LinkError::Unreachable(_)) => Ok(None),
        Err(error @ LinkError::MadeByAgent { .. }) => Err(SandboxError::Link(error)),
    }
}

/// Returns the path with links resolved, as far as it exists.
fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    fs::canonicalize(&path).unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve(parent).join(name),
        _ => path,
    })
}

/// Grants a path, or if it contains hidden paths, everything in it except those. Links are not
/// granted, because only their targets need a grant. Returns whether the path itself is granted.
fn grant_around(place: &Path, hidden: &[PathBuf], granted: &mut BTreeSet<PathBuf>) -> bool {
    if hidden.iter().any(|own| place.starts_with(own)) {
        return false;
    }
    if !hidden.iter().any(|own| own.starts_with(place)) {
        granted.insert(place.to_owned());
        return true;
    }
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            grant_around(&entry.path(), hidden, granted);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["config/state", "work/project", "shared/a", "shared/config"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        (folder, root)
    }

    fn of(reach: &Reach) -> Result<Grants, SandboxError> {
        compute(reach, Path::new("/bin/sh"), OsStr::new("/usr/bin:/bin"), None)
    }

    #[test]
    fn a_writable_path_that_contains_or_is_in_a_hidden_one_is_refused() {
        let (_folder, root) = folder();
        let hidden = vec![root.join("config"), root.join("work/.env")];
        let write = |place: PathBuf| {
            of(&Reach { write: vec![place], hidden: hidden.clone(), ..Reach::default() })
        };
        assert!(
            write(root.join("work/project")).unwrap().write.contains(&root.join("work/project"))
        );
        for (place, word) in [
            ("", "contains"),
            ("config", "lies in"),
            ("config/state", "lies in"),
            ("work", "contains"),
        ] {
            let fault = write(root.join(place)).unwrap_err().to_string();
            assert!(
                fault.contains(word) && fault.contains("the gateway's own"),
                "{place}: {fault}"
            );
        }
        symlink(root.join("config"), root.join("link")).unwrap();
        assert!(
            write(root.join("link")).unwrap_err().to_string().contains("lies in"),
            "a link counts as its target"
        );
        let refused = of(&Reach {
            write: vec![root.join("work")],
            read_only: vec![root.join("work/project")],
            ..Reach::default()
        });
        assert!(refused.unwrap_err().to_string().contains("contains"));
    }

    #[test]
    fn a_readable_path_is_granted_without_the_hidden_paths_in_it() {
        let (_folder, root) = folder();
        let reach = |place: PathBuf| Reach {
            read: vec![place],
            hidden: vec![root.join("shared/config")],
            ..Reach::default()
        };
        let granted = of(&reach(root.clone())).unwrap().read;
        for inside in ["config", "work", "shared/a"] {
            assert!(granted.contains(&root.join(inside)), "{inside}: {granted:?}");
        }
        assert!(
            !granted.iter().any(|place| root.join("shared/config").starts_with(place)),
            "{granted:?}"
        );
        let refused = of(&reach(root.join("shared/config")));
        assert!(refused.unwrap_err().to_string().contains("lies in"));
    }

    #[test]
    fn a_link_in_a_writable_folder_grants_nothing_more() {
        let (_folder, root) = folder();
        symlink(root.join("config"), root.join("work/state.json")).unwrap();
        let reach = Reach {
            write: vec![root.join("work/state.json"), root.join("work")],
            ..Reach::default()
        };
        assert_eq!(of(&reach).unwrap().write, BTreeSet::from([root.join("work")]));
    }
}
