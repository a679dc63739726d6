//! Waits for changes of a project's sources.
//!
//! Files that Git would ignore are outputs of the build, so their changes are not reported. The
//! folders are watched one by one, because those of compilers can contain thousands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ignore::WalkBuilder;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use aetheel::commands::kit::KitError;

/// A change is reported after this time without another one, because editors write in steps.
const QUIET: Duration = Duration::from_millis(30);
/// Names of folders that compilers write, for projects without a `.gitignore`.
const OUTPUT_FOLDERS: [&str; 4] = ["target", "node_modules", "zig-out", "__pycache__"];

pub(super) struct Sources {
    folder: PathBuf,
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    events: UnboundedReceiver<PathBuf>,
    /// Changed files that were not taken yet.
    changed: BTreeSet<PathBuf>,
}

impl Sources {
    /// Watches a folder.
    ///
    /// # Errors
    /// The folder does not exist, or the system refuses to watch it.
    pub(super) fn watch(folder: &Path) -> Result<Self, KitError> {
        let folder = folder
            .canonicalize()
            .map_err(|error| KitError::usage(format!("{}: {error}", folder.display())))?;
        let (sender, events) = unbounded_channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            for path in event.paths {
                let _ = sender.send(path); // fails during shutdown
            }
        });
        let watcher = watcher.map_err(|error| unwatchable(&folder, &error))?;
        let mut sources =
            Self { folder, watcher, watched: BTreeSet::new(), events, changed: BTreeSet::new() };
        sources.follow()?;
        Ok(sources)
    }

    /// Waits until files changed and no more changes follow. Cancel safe.
    pub(super) async fn changed(&mut self) {
        while self.changed.is_empty() {
            match self.events.recv().await {
                Some(path) => self.note(path),
                // The watcher owns the sender.
                None => return std::future::pending().await,
            }
        }
        while let Ok(Some(path)) = timeout(QUIET, self.events.recv()).await {
            self.note(path);
        }
    }

    /// Returns the changed files, relative to the folder, and watches new folders.
    ///
    /// # Errors
    /// The system refuses to watch a new folder.
    pub(super) fn take(&mut self) -> Result<Vec<String>, KitError> {
        self.follow()?;
        let changed = std::mem::take(&mut self.changed);
        let name =
            |path: &PathBuf| path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        Ok(changed.iter().map(name).collect())
    }

    fn note(&mut self, path: PathBuf) {
        if is_source(&self.folder, &path) {
            self.changed.insert(path);
        }
    }

    /// Watches all folders that are not watched yet.
    fn follow(&mut self) -> Result<(), KitError> {
        let folders = walk(&self.folder, None).filter(|path| path.is_dir());
        for path in folders.collect::<Vec<_>>() {
            if self.watched.contains(&path) {
                continue;
            }
            match self.watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => self.watched.insert(path),
                // It was removed meanwhile.
                Err(_) if !path.exists() => continue,
                Err(error) => return Err(unwatchable(&path, &error)),
            };
        }
        self.watched.retain(|path| path.exists());
        Ok(())
    }
}

fn unwatchable(path: &Path, error: &notify::Error) -> KitError {
    KitError {
        hint: Some("the system limits watched folders: fs.inotify.max_user_watches"),
        ..KitError::failed(format!("cannot watch {}: {error}", path.display()))
    }
}

/// Returns whether a changed path is a source. A removed file is one unless its name excludes it,
/// because the rules of Git for it cannot be looked up by walking.
fn is_source(folder: &Path, path: &Path) -> bool {
    let relative = path.strip_prefix(folder).unwrap_or(path);
    let excluded =
        |name: &str| name.starts_with('.') || is_of_editor(name) || OUTPUT_FOLDERS.contains(&name);
    if relative.iter().any(|part| part.to_str().is_none_or(excluded))
        || path.extension().is_some_and(|extension| extension == "wasm")
    {
        return false;
    }
    if !path.exists() {
        return true;
    }
    // Folders change whenever a file in them does.
    path.is_file() && walk(folder, Some(path)).any(|found| found == path)
}

/// Returns whether an editor makes a file of this name while it saves another: Vim's test file and
/// swap files, Emacs' saved changes, and temporary and backup files.
fn is_of_editor(name: &str) -> bool {
    let endings = ["~", ".swp", ".swo", ".swx", ".tmp", ".bak", "___jb_tmp___", "___jb_old___"];
    name == "4913"
        || (name.starts_with('#') && name.ends_with('#'))
        || endings.iter().any(|ending| name.ends_with(ending))
}

/// Returns the folder and everything below it that Git would not ignore; with `towards`, only the
/// path to that file.
fn walk(folder: &Path, towards: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let towards = towards.map(Path::to_owned);
    let mut walk = WalkBuilder::new(folder);
    walk.require_git(false).filter_entry(move |entry| {
        let output = entry.file_name().to_str().is_some_and(|name| OUTPUT_FOLDERS.contains(&name));
        // The project itself may be in a folder with such a name.
        let excluded = output && entry.depth() > 0;
        !excluded && towards.as_ref().is_none_or(|towards| towards.starts_with(entry.path()))
    });
    walk.build().flatten().map(ignore::DirEntry::into_path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn outputs_are_not_sources() {
        let project = tempfile::tempdir().unwrap();
        let folder = project.path().join("target");
        for path in ["src/lib.rs", "gen/a.c", "target/x.rs", "a.wasm", "notes.md", ".git/HEAD"] {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(folder.join(".gitignore"), "gen/\n").unwrap();
        let is = |path: &str| is_source(&folder, &folder.join(path));
        assert!(is("src/lib.rs") && is("notes.md"));
        assert!(is("src/removed.rs"), "a removed source");
        let of_editors =
            ["src/lib.rs~", "4913", "lib.rs.swp", "#lib.rs#", "src/lib.rs___jb_tmp___"];
        let outputs = ["gen/a.c", "target/x.rs", "a.wasm", ".git/HEAD", "src"];
        for path in outputs.into_iter().chain(of_editors) {
            assert!(!is(path), "{path}");
        }
        let watched: Vec<PathBuf> = walk(&folder, None).filter(|path| path.is_dir()).collect();
        assert_eq!(watched, [folder.clone(), folder.join("src")]);
    }
}
