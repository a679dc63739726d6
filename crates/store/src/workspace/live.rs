//! `state/live/`: versions of backends in development, which `aetheel backend dev --live` hands to
//! the gateway for one channel each.
//!
//! A version is three files: the component, a lock that the program which hands it over holds
//! (flock), and the gateway's answer. When that program ends, for whatever reason, the lock is free,
//! and the gateway removes the files.

use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::FileError;
use crate::disk::replace;
use aetheel_model::id::ChannelId;

const COMPONENT: &str = "wasm";
const LOCK: &str = "lock";
const ANSWER: &str = "md";

/// The folder. Its methods do I/O and must be called on the blocking pool.
#[derive(Clone, Debug)]
pub struct LiveFolder {
    folder: PathBuf,
}

/// A version that was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveVersionFile {
    /// The name of the backend.
    pub backend: String,
    /// The channel that it serves.
    pub channel: ChannelId,
    /// The path of the component.
    pub path: PathBuf,
}

/// The gateway's decision about a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveAnswer {
    /// It serves its channel.
    Serves,
    /// It does not serve, for this reason.
    Refused(String),
}

/// The versions of one backend that a program hands over, one after the other. The gateway drops
/// the last one when this value is dropped or the program ends.
#[derive(Debug)]
pub struct LiveHandover {
    stem: PathBuf,
    #[expect(dead_code, reason = "the lock is held until this is dropped")]
    lock: File,
}

impl LiveFolder {
    /// Names the folder in a configuration folder. Does not create it.
    #[must_use]
    pub fn new(config_dir: &Path) -> Self {
        Self { folder: config_dir.join("state").join("live") }
    }

    /// Begins to hand over versions of a backend for a channel. Returns `None` if another program
    /// does that.
    ///
    /// # Errors
    /// [`FileError`] if the folder or the lock cannot be created.
    pub fn begin(
        &self,
        backend: &str,
        channel: ChannelId,
    ) -> Result<Option<LiveHandover>, FileError> {
        let stem = self.folder.join(format!("{channel}.{backend}"));
        let failed = |error| FileError::new("write", &stem, error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed)?;
        let path = with(&stem, LOCK);
        loop {
            let lock = File::create(&path).map_err(failed)?;
            match lock.try_lock() {
                // The gateway may have removed the file before it was locked.
                Ok(()) if !is_file_at(&lock, &path) => {}
                Ok(()) => return Ok(Some(LiveHandover { stem, lock })),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    /// Returns the versions whose programs still run, ordered by path, and removes the files of all
    /// others. Returns none if the folder cannot be read.
    #[must_use]
    pub fn versions(&self) -> Vec<LiveVersionFile> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let locks = entries.map(|entry| entry.path()).filter(|path| has_extension(path, LOCK));
        let mut versions = Vec::new();
        for lock in locks {
            let stem = lock.with_extension("");
            if is_held(&lock) {
                versions.extend(version(&stem).filter(|version| version.path.is_file()));
            } else {
                remove(&stem);
            }
        }
        versions.sort_by(|one, other| one.path.cmp(&other.path));
        versions
    }
}

impl LiveVersionFile {
    /// Saves the gateway's answer about the component with this digest.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written.
    pub fn answer(&self, digest: &str, answer: &LiveAnswer) -> Result<(), FileError> {
        let text = match answer {
            LiveAnswer::Serves => format!("`{digest}` serves\n"),
            LiveAnswer::Refused(reason) => format!("`{digest}` refused: {reason}\n"),
        };
        let path = self.path.with_extension(ANSWER);
        let replaced = replace(&path, text.as_bytes());
        replaced.map(|_| ()).map_err(|error| FileError::new("write", &path, error))
    }
}

impl LiveHandover {
    /// Hands a component over, in place of the one before.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written.
    pub fn put(&self, component: &[u8]) -> Result<(), FileError> {
        let path = with(&self.stem, COMPONENT);
        let replaced = replace(&path, component);
        replaced.map(|_| ()).map_err(|error| FileError::new("write", &path, error))
    }

    /// Returns the gateway's answer about the component with this digest, once there is one.
    #[must_use]
    pub fn answer(&self, digest: &str) -> Option<LiveAnswer> {
        let text = fs::read_to_string(with(&self.stem, ANSWER)).ok()?;
        let said = text.trim().strip_prefix(&format!("`{digest}` "))?;
        match said.strip_prefix("refused: ") {
            Some(reason) => Some(LiveAnswer::Refused(reason.to_owned())),
            None => (said == "serves").then_some(LiveAnswer::Serves),
        }
    }
}

impl Drop for LiveHandover {
    fn drop(&mut self) {
        remove(&self.stem);
    }
}

/// The name of a backend has no dot.
fn with(stem: &Path, extension: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn version(stem: &Path) -> Option<LiveVersionFile> {
    let (channel, backend) = stem.file_name()?.to_str()?.split_once('.')?;
    let channel = ChannelId::parse_nonzero(channel).ok()?;
    Some(LiveVersionFile { backend: backend.to_owned(), channel, path: with(stem, COMPONENT) })
}

fn is_file_at(file: &File, path: &Path) -> bool {
    let inode = |metadata: io::Result<Metadata>| metadata.ok().map(|metadata| metadata.ino());
    inode(file.metadata()) == inode(fs::metadata(path))
}

/// Returns whether a program holds the lock. An unreadable lock counts as held, so that its files
/// stay.
fn is_held(lock: &Path) -> bool {
    let held = |file: File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    match File::open(lock) {
        Ok(file) => held(file),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Removes the files of a version, the lock last.
fn remove(stem: &Path) {
    for extension in [COMPONENT, ANSWER, LOCK] {
        // A file that remains is removed by the next call.
        let _ = fs::remove_file(with(stem, extension));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_exists_as_long_as_the_program_that_handed_it_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let live = LiveFolder::new(folder.path());
        assert_eq!(live.versions(), []);
        let channel = ChannelId::discord(7);
        let handover = live.begin("mini", channel).expect("written").expect("free");
        assert!(live.begin("mini", channel).expect("read").is_none(), "one program at a time");
        assert_eq!(live.versions(), [], "there is no component yet");
        handover.put(b"one").expect("written");
        handover.put(b"two").expect("written");
        let [version] = &live.versions()[..] else { panic!("one version") };
        assert_eq!((&*version.backend, version.channel), ("mini", channel));
        assert_eq!(fs::read(&version.path).expect("read"), b"two");

        assert_eq!(handover.answer("ab"), None);
        version.answer("ab", &LiveAnswer::Serves).expect("written");
        assert_eq!(
            (handover.answer("ab"), handover.answer("cd")),
            (Some(LiveAnswer::Serves), None)
        );
        let refused = LiveAnswer::Refused("it wants: more".to_owned());
        version.answer("cd", &refused).expect("written");
        assert_eq!(handover.answer("cd"), Some(refused));
        drop(handover);
        assert_eq!(live.versions(), []);

        // A killed program leaves its files, but not its lock.
        let stem = folder.path().join("state/live/7.mini");
        fs::write(with(&stem, LOCK), "").expect("written");
        fs::write(with(&stem, COMPONENT), "three").expect("written");
        assert_eq!(live.versions(), []);
        assert_eq!(fs::read_dir(folder.path().join("state/live")).expect("read").count(), 0);
    }
}
