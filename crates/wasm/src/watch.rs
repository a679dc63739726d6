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
use tokio::time::Instant;

/// A hint from the watched directory.
#[derive(Debug)]
pub(super) enum Hint {
    /// This file changed. `complete` is true if the writer has finished.
    File { path: PathBuf, complete: bool },
    /// The directory itself changed, or events were lost. All files must be checked.
    Everything,
}

#[derive(Debug)]
pub(super) struct FolderWatch {
    directory: PathBuf,
    hints: mpsc::UnboundedSender<Hint>,
    /// The watcher, and the directory (device, inode) that it really watches.
    watcher: Option<(RecommendedWatcher, (u64, u64))>,
}

impl FolderWatch {
    /// Prepares a watch on an absolute path. [`FolderWatch::renew`] starts it.
    pub(super) fn new(directory: PathBuf) -> (Self, mpsc::UnboundedReceiver<Hint>) {
        let (hints, receiver) = mpsc::unbounded_channel();
        (Self { directory, hints, watcher: None }, receiver)
    }

    /// Makes sure that the directory at the path is the watched one. Returns true if a new watch
    /// was started.
    pub(super) fn renew(&mut self) -> bool {
        let Some(now) = std::fs::metadata(&self.directory)
            .ok()
            .filter(std::fs::Metadata::is_dir)
            .map(|m| (m.dev(), m.ino()))
        else {
            self.watcher = None;
            return false;
        };
        if self.watcher.as_ref().is_some_and(|(_, watched)| *watched == now) {
            return false;
        }
        self.watcher = None;
        match self.begin() {
            Ok(watcher) => {
                self.watcher = Some((watcher, now));
                true
            }
            Err(error) => {
                let path = self.directory.display();
                tracing::warn!(%path, %error, "cannot watch the backends folder; hint: the periodic rescan finds changes instead");
                false
            }
        }
    }

    fn begin(&self) -> notify::Result<RecommendedWatcher> {
        let hints = self.hints.clone();
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

/// Returns whether a name is that of a component: `*.wasm`, and not hidden, because writers use
/// hidden names for unfinished files.
pub(super) fn is_component(path: &Path) -> bool {
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
    pub(super) fn new(quiet: Duration) -> Self {
        Self { quiet, due: BTreeMap::new() }
    }

    /// Registers a change. If the writer has finished, a shorter time without changes suffices,
    /// because only few writers close a file between two pieces.
    pub(super) fn touch(&mut self, path: PathBuf, complete: bool, now: Instant) {
        self.due.insert(path, now + if complete { self.quiet / 8 } else { self.quiet });
    }

    /// Returns when the next file will have been unchanged for long enough.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Removes and returns the files that have been unchanged for long enough.
    pub(super) fn take(&mut self, now: Instant) -> Vec<PathBuf> {
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
