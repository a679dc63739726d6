//! Watches a folder for changed components.
//!
//! It always watches the directory, never files: a watch on a file ends with the first rename over
//! it. Events are only hints. The loader reads the actual state from the disk, and its rescan finds
//! changes without events (a replaced directory, the target of a symbolic link, lost events).

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use aetheel_store::disk::Stamp;

/// A hint from the watched directory.
#[derive(Debug)]
enum Hint {
    /// This file changed. `complete` is true if the writer has finished.
    File { path: PathBuf, complete: bool },
    /// The directory itself changed, or events were lost. All files must be checked.
    Everything,
}

/// A folder of components, with its files that changed recently.
#[derive(Debug)]
pub(super) struct FolderWatch {
    pub(super) directory: PathBuf,
    sender: mpsc::UnboundedSender<Hint>,
    hints: mpsc::UnboundedReceiver<Hint>,
    /// The watcher, and the directory (device, inode) that it really watches.
    watcher: Option<(RecommendedWatcher, (u64, u64))>,
    pub(super) settling: Settling,
    /// Whether the directory could not be read when it was last listed.
    pub(super) is_missing: bool,
}

impl FolderWatch {
    /// Prepares a watch on an absolute path. [`FolderWatch::renew`] starts it.
    pub(super) fn new(directory: PathBuf, quiet: Duration) -> Self {
        let (sender, hints) = mpsc::unbounded_channel();
        let (settling, watcher) = (Settling::new(quiet), None);
        Self { directory, sender, hints, watcher, settling, is_missing: false }
    }

    /// Makes sure that the directory at the path is the watched one.
    pub(super) fn renew(&mut self) {
        let now = std::fs::metadata(&self.directory).ok().filter(std::fs::Metadata::is_dir);
        let now = now.map(|folder| (folder.dev(), folder.ino()));
        if self.watcher.as_ref().map(|(_, watched)| *watched) == now {
            return;
        }
        self.watcher = None;
        let Some(now) = now else { return };
        match self.begin() {
            Ok(watcher) => self.watcher = Some((watcher, now)),
            Err(error) => {
                let path = self.directory.display();
                tracing::warn!(%path, %error, "cannot watch the backends folder; hint: the periodic rescan finds changes instead");
            }
        }
    }

    /// Returns the component files that exist, by name.
    pub(super) async fn list(&mut self) -> BTreeMap<PathBuf, Stamp> {
        let directory = self.directory.clone();
        let found = tokio::task::spawn_blocking(move || list(&directory)).await.unwrap_or_default();
        self.is_missing = found.is_none();
        found.unwrap_or_default()
    }

    /// Waits for changes. Returns the files that have been unchanged for long enough since, or
    /// `None` if all files must be checked. No change is lost if the call is cancelled.
    pub(super) async fn changed(&mut self) -> Option<Vec<PathBuf>> {
        loop {
            let due = self.settling.next();
            let quiet = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(hint) = self.hints.recv() => match hint {
                    Hint::File { path, complete } => self.settling.touch(path, complete, Instant::now()),
                    Hint::Everything => return None,
                },
                () = quiet => return Some(self.settling.take(Instant::now())),
            }
        }
    }

    fn begin(&self) -> notify::Result<RecommendedWatcher> {
        let hints = self.sender.clone();
        let directory = self.directory.clone();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<Event>| match event {
                Ok(event) => {
                    for hint in hints_of(&event, &directory) {
                        let _ = hints.send(hint); // fails during shutdown
                    }
                }
                Err(_) => {
                    let _ = hints.send(Hint::Everything);
                }
            })?;
        watcher.watch(&self.directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }
}

/// Returns the component files of a directory, or `None` if it cannot be read.
fn list(directory: &Path) -> Option<BTreeMap<PathBuf, Stamp>> {
    let entries = std::fs::read_dir(directory).ok()?;
    let paths =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| is_component(path));
    Some(paths.filter_map(|path| Stamp::of(&path).map(|stamp| (path, stamp))).collect())
}

/// Returns whether a name is that of a component: `*.wasm`, and not hidden, because writers use
/// hidden names for unfinished files.
fn is_component(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
        && path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
}

/// Returns the component that a changed file is, or whose signature it is.
fn component_of(path: &Path) -> Option<PathBuf> {
    let signed = path
        .file_name()?
        .to_str()
        .and_then(|name| name.strip_suffix(".minisig"))
        .map(|name| path.with_file_name(name));
    Some(signed.unwrap_or_else(|| path.to_owned())).filter(|path| is_component(path))
}

fn hints_of(event: &Event, directory: &Path) -> Vec<Hint> {
    let complete = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        // The loader's own reads cause access events too.
        EventKind::Access(_) => return Vec::new(),
        EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both))
        | EventKind::Remove(_) => true,
        _ => false,
    };
    if event.need_rescan() || event.paths.iter().any(|path| path == directory) {
        return vec![Hint::Everything];
    }
    event
        .paths
        .iter()
        .filter_map(|path| component_of(path))
        .map(|path| Hint::File { path, complete })
        .collect()
}

/// Files that changed recently.
#[derive(Debug)]
pub(super) struct Settling {
    quiet: Duration,
    due: BTreeMap<PathBuf, Instant>,
}

impl Settling {
    fn new(quiet: Duration) -> Self {
        Self { quiet, due: BTreeMap::new() }
    }

    /// Registers a change. If the writer has finished, a shorter time without changes suffices,
    /// because only few writers close a file between two pieces.
    pub(super) fn touch(&mut self, path: PathBuf, complete: bool, now: Instant) {
        self.due.insert(path, now + if complete { self.quiet / 8 } else { self.quiet });
    }

    /// Returns when the next file will have been unchanged for long enough.
    fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Removes and returns the files that have been unchanged for long enough.
    fn take(&mut self, now: Instant) -> Vec<PathBuf> {
        let due: Vec<_> =
            self.due.iter().filter(|(_, due)| **due <= now).map(|(path, _)| path.clone()).collect();
        for path in &due {
            self.due.remove(path);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_returned_once_it_has_not_changed_for_long_enough() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut settling = Settling::new(ms(200));
        settling.touch("a".into(), false, start);
        settling.touch("a".into(), false, start + ms(150));
        settling.touch("b".into(), true, start + ms(150));
        assert_eq!(settling.next(), Some(start + ms(175)));
        assert_eq!(settling.take(start + ms(174)), Vec::<PathBuf>::new());
        assert_eq!(settling.take(start + ms(175)), [PathBuf::from("b")]);
        assert_eq!(settling.take(start + ms(349)), Vec::<PathBuf>::new());
        assert_eq!(settling.take(start + ms(350)), [PathBuf::from("a")]);
        assert_eq!(settling.next(), None);
    }

    #[test]
    fn reads_and_hidden_files_give_no_hints() {
        let event = |kind, path: &str| Event::new(kind).add_path(path.into());
        let folder = Path::new("/b");
        let read = EventKind::Access(AccessKind::Close(AccessMode::Read));
        assert!(hints_of(&event(read, "/b/a.wasm"), folder).is_empty());
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert!(hints_of(&event(written, "/b/.a.wasm"), folder).is_empty());
        assert!(hints_of(&event(written, "/b/a.wasm.tmp"), folder).is_empty());
        assert!(matches!(
            &hints_of(&event(written, "/b/a.wasm"), folder)[..],
            [Hint::File { complete: true, .. }]
        ));
        let signed = hints_of(&event(written, "/b/a.wasm.minisig"), folder);
        assert!(
            matches!(&signed[..], [Hint::File { path, complete: true }] if path == Path::new("/b/a.wasm")),
            "{signed:?}"
        );
        let moved = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        assert!(matches!(&hints_of(&event(moved, "/b"), folder)[..], [Hint::Everything]));
    }
}
