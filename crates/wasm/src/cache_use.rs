//! Shows that a program uses the folder for compiled code, and removes what ended programs left.
//!
//! If a program is killed or the disk is full while wasmtime writes compiled code, an unfinished
//! file stays. Wasmtime does not write that code again while the file exists, and warns about it at
//! each start. It removes such files itself, but only after a while and not those of its last days.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The file that each program locks (flock) while it uses the folder.
const LOCK: &str = "in-use";
/// Part of the names of wasmtime's unfinished files.
const UNFINISHED: &str = ".wip-atomic-write-";
/// Age from which an unfinished file is removed while other programs use the folder. A write takes
/// much less, and wasmtime repeats one whose file is removed.
const ABANDONED: Duration = Duration::from_secs(60);
/// Depth of the folders of wasmtime's cache.
const DEPTH: usize = 3;

/// Shows other programs that this one uses the folder, until it is dropped.
#[derive(Debug)]
pub(super) struct CacheUse {
    #[expect(dead_code, reason = "the lock is held until this is dropped")]
    lock: Option<File>,
}

impl CacheUse {
    /// Begins to use a folder, whose folder `components` belongs to wasmtime's cache. Removes the
    /// unfinished files of ended programs: all of them if no other program uses the folder, and the
    /// old ones otherwise. Blocks.
    pub(super) fn begin(folder: &Path, components: &Path) -> Self {
        let lock = File::options().create(true).append(true).open(folder.join(LOCK));
        let lock = lock
            .inspect_err(
                |error| tracing::debug!(%error, "cannot lock the folder for compiled code"),
            )
            .ok();
        let alone = lock.as_ref().is_some_and(|lock| lock.try_lock().is_ok());
        let removed = remove_unfinished(components, alone, DEPTH);
        if removed > 0 {
            tracing::info!(
                files = removed,
                "removed half-written compiled code that an earlier process left behind"
            );
        }
        // Without the lock, another program may remove a file that is being written, which costs
        // only the time to write it again.
        let lock = lock.filter(|lock| lock.try_lock_shared().is_ok());
        Self { lock }
    }
}

/// Removes unfinished files. Returns their number.
fn remove_unfinished(folder: &Path, alone: bool, depth: usize) -> usize {
    let mut removed = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            if depth > 1 {
                removed += remove_unfinished(&entry.path(), alone, depth - 1);
            }
            continue;
        }
        let age = metadata.modified().ok().map(|at| SystemTime::now().duration_since(at));
        // A file from the future is not being written.
        let old = age.is_some_and(|age| age.map_or(true, |age| age >= ABANDONED));
        let unfinished = entry.file_name().to_string_lossy().contains(UNFINISHED);
        if unfinished && (alone || old) && fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use aetheel_model::limits::ResourceLimits;

    use super::*;
    use crate::engine::Engine;

    #[test]
    fn a_new_engine_removes_what_a_killed_process_was_writing() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        let engine = || Engine::new(&ResourceLimits::default(), Some(&cache), &[]).expect("made");
        let first = engine();
        let left = cache.join("components/modules/wasmtime-x/code.wip-atomic-write-mod");
        fs::create_dir_all(left.parent().expect("a folder")).expect("created");
        fs::write(&left, "half").expect("written");
        let second = engine();
        assert!(left.exists(), "the first one may write it");
        drop((first, second));
        let _next = engine();
        assert!(!left.exists());
    }

    #[test]
    fn unfinished_files_are_removed_unless_another_program_may_write_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let components = folder.path().join("components");
        let place = components.join("modules/wasmtime-x");
        fs::create_dir_all(&place).expect("created");
        let make = |name: &str, age: u64| {
            let file = File::create(place.join(name)).expect("created");
            let at = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(at).expect("set");
        };
        let left = || {
            let entries = fs::read_dir(&place).expect("read").flatten();
            let mut names: Vec<String> =
                entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
            names.sort();
            names
        };
        let all = || {
            make("code", 5_000);
            make("code.stats", 5_000);
            make("new.wip-atomic-write-mod", 0);
            make("old.wip-atomic-write-mod", 5_000);
            make("old.wip-atomic-write-stats", 5_000);
        };
        all();
        let first = CacheUse::begin(folder.path(), &components);
        assert_eq!(left(), ["code", "code.stats"], "nobody else writes there");
        all();
        let second = CacheUse::begin(folder.path(), &components);
        assert_eq!(left(), ["code", "code.stats", "new.wip-atomic-write-mod"]);
        drop(first);
        let third = CacheUse::begin(folder.path(), &components);
        assert_eq!(left().len(), 3, "the second one may write it");
        drop((second, third));
        let _last = CacheUse::begin(folder.path(), &components);
        assert_eq!(left(), ["code", "code.stats"]);
    }
}
