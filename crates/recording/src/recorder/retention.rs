//! Keeps the recordings of lost turns in a separate folder with separate limits, and lists
//! recordings.
//!
//! It handles files without reading their content.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder of kept recordings, within the folder of all recordings.
pub(super) const LOST_FOLDER: &str = "lost";

/// Keeps a recording under another name, as a hard link or, if that is not possible, as a copy. A
/// recording that is already kept stays unchanged. Blocks.
///
/// # Errors
/// The system's error.
pub(super) fn keep(from: &Path, to: &Path) -> io::Result<()> {
    let folder = to.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    match fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        // Some file systems do not support hard links.
        Err(_) => {
            let mut copy =
                match OpenOptions::new().create_new(true).write(true).mode(0o600).open(to) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                    copy => copy?,
                };
            io::copy(&mut File::open(from)?, &mut copy)?;
            copy.sync_all()
        }
        Ok(()) => fs::set_permissions(to, fs::Permissions::from_mode(0o600)),
    }
}

/// Returns the recordings in a folder, without those of lost turns. A missing folder counts as
/// empty.
///
/// # Errors
/// The system's error if the folder cannot be listed.
pub(super) fn recordings(folder: &Path, now: SystemTime) -> io::Result<Vec<StoredRecording>> {
    let mut files = Vec::new();
    let days = match fs::read_dir(folder) {
        Ok(days) => days,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(error),
    };
    for day in days.flatten().filter(|day| day.path().is_dir() && day.file_name() != LOST_FOLDER) {
        recordings_in(&day.path(), now, &mut files)?;
    }
    Ok(files)
}

/// Removes kept recordings older than `max_age`, then the oldest ones until the rest is within
/// `max_bytes`. `folder` is the folder of all recordings. Returns the number of removed recordings.
/// Blocks.
///
/// # Errors
/// The system's error if the folder cannot be listed. A file that cannot be removed is skipped.
pub(super) fn prune_lost(
    folder: &Path,
    max_age: Duration,
    max_bytes: u64,
    now: SystemTime,
) -> io::Result<usize> {
    let mut files = Vec::new();
    match recordings_in(&folder.join(LOST_FOLDER), now, &mut files) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
        Ok(()) => Ok(prune_files(files, max_age, max_bytes, now)),
    }
}

/// A closed recording. The order is that of the last lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StoredRecording {
    pub(super) modified: SystemTime,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

fn recordings_in(
    folder: &Path,
    now: SystemTime,
    files: &mut Vec<StoredRecording>,
) -> io::Result<()> {
    for file in fs::read_dir(folder)?.flatten() {
        if let Ok(meta) = file.metadata()
            && meta.is_file()
            && file.path().extension().is_some_and(|extension| extension == "jsonl")
        {
            let modified = meta.modified().unwrap_or(now);
            files.push(StoredRecording { modified, path: file.path(), bytes: meta.len() });
        }
    }
    Ok(())
}

/// Removes files that are too old, then the oldest ones until the rest is within the limit. Returns
/// the number of removed files.
fn prune_files(
    mut files: Vec<StoredRecording>,
    max_age: Duration,
    max_bytes: u64,
    now: SystemTime,
) -> usize {
    files.sort();
    let mut total: u64 = files.iter().map(|file| file.bytes).sum();
    let mut removed = 0;
    for StoredRecording { modified, path, bytes } in files {
        let old = now.duration_since(modified).is_ok_and(|age| age > max_age);
        if !old && total <= max_bytes {
            break;
        }
        if fs::remove_file(&path).is_ok() {
            removed += 1;
            total -= bytes;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, bytes: usize, age_s: u64, now: SystemTime) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, vec![b'x'; bytes]).expect("written");
        let at = now - Duration::from_secs(age_s);
        File::options().write(true).open(&path).expect("open").set_modified(at).expect("set");
    }

    fn left(folder: &Path) -> Vec<String> {
        let files = fs::read_dir(folder.join(LOST_FOLDER)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_kept_recording_survives_ordinary_pruning_and_has_separate_limits() {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder, now) = (folder.path(), SystemTime::now());
        file(folder, "2026-01-01/a.jsonl", 10, 900, now);
        file(folder, "2026-01-01/b.jsonl", 10, 500, now);
        for name in ["a", "b"] {
            let from = folder.join(format!("2026-01-01/{name}.jsonl"));
            keep(&from, &folder.join(LOST_FOLDER).join(format!("{name}.jsonl"))).expect("kept");
            keep(&from, &folder.join(LOST_FOLDER).join(format!("{name}.jsonl")))
                .expect("kept again");
        }
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(
            (mode(&folder.join(LOST_FOLDER)), mode(&folder.join("lost/a.jsonl"))),
            (0o700, 0o600)
        );
        assert_eq!(
            recordings(folder, now).expect("listed").len(),
            2,
            "kept recordings do not count twice"
        );
        fs::remove_dir_all(folder.join("2026-01-01")).expect("removed");
        assert_eq!(left(folder), ["a.jsonl", "b.jsonl"], "both are still there");
        assert_eq!(prune_lost(folder, Duration::from_secs(1000), 15, now).expect("pruned"), 1);
        assert_eq!(left(folder), ["b.jsonl"], "the older one was over the size");
        assert_eq!(prune_lost(folder, Duration::from_secs(100), 1 << 20, now).expect("pruned"), 1);
        assert_eq!(left(folder), Vec::<String>::new());
        assert_eq!(prune_lost(folder, Duration::ZERO, 0, now).expect("nothing is there"), 0);
    }

    #[test]
    fn lines_written_after_a_recording_was_kept_are_kept_too() {
        use std::io::Write as _;
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("x.jsonl"), folder.path().join("lost/x.jsonl"));
        let mut open = File::create(&from).expect("made");
        keep(&from, &to).expect("kept");
        open.write_all(b"more").expect("written");
        assert_eq!(fs::read(&to).expect("there"), b"more");
        assert!(
            keep(&folder.path().join("gone.jsonl"), &folder.path().join("lost/gone.jsonl"))
                .is_err()
        );
    }
}
