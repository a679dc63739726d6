//! The socket and the lock file of a holder, in the gateway's state folder.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

const SOCKET: &str = "holder.sock";
const LOCK: &str = "holder.lock";
/// Name of the state folder within `CONFIG_DIR`.
const STATE: &str = "state";
/// The file with the key that a gateway must send. A confined agent cannot read this file, and the
/// holder refuses it even with the key ([`super::client`]).
const KEY: &str = "holder.key";

/// The reason why a holder cannot serve or be used.
#[derive(Debug, thiserror::Error)]
pub enum HolderError {
    /// Another holder serves the folder.
    #[error("another holder serves `{}`; stop it first, or choose another folder with --state", .0.display())]
    AlreadyServed(PathBuf),
    /// The holder refused the gateway, or the gateway refused the holder.
    #[error("{0}")]
    Refused(String),
    /// The holder runs as another user.
    #[error("the holder in `{}` runs as user {uid}, not as this user; stop it, and remove its files there", folder.display())]
    OtherUser {
        /// The state folder.
        folder: PathBuf,
        /// The holder's user.
        uid: u32,
    },
    /// The folder cannot be used.
    #[error("cannot use the folder `{}`: {source}; it must be the state folder of a gateway, owned by this user, with free space\nhint: name CONFIG_DIR/state with `--state`, or run `aetheel init` first", folder.display())]
    Folder {
        /// The state folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No holder answers.
    #[error("no holder answers in `{}`: {source}; start one with `aetheel hold`", folder.display())]
    NoAnswer {
        /// The state folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The holder confines agents in another way than this gateway, and it cannot be replaced.
    #[error("the holder in `{}` confines agents with `AGENT_SANDBOX={holder}`, and this gateway with `{gateway}`; set the same AGENT_SANDBOX in the environment of both (for systemd: in the unit `aetheel-hold` too), and restart the holder", folder.display())]
    OtherSandbox {
        /// The state folder.
        folder: PathBuf,
        /// The sandbox of the holder, as a value of `AGENT_SANDBOX`.
        holder: &'static str,
        /// The sandbox of the gateway.
        gateway: &'static str,
    },
    /// The holder could not be started.
    #[error("cannot start a holder: {0}; start one with `aetheel hold`")]
    Start(#[source] io::Error),
    /// `/proc` cannot be read.
    #[error("cannot take custody of processes: {0}")]
    Custody(#[source] io::Error),
}

/// The locked state folder with the listening socket. The lock is released when this is dropped.
#[derive(Debug)]
pub(super) struct HolderSocket {
    pub(super) listener: UnixListener,
    /// The key that a gateway must send.
    pub(super) key: String,
    folder: PathBuf,
    _lock: File,
}

impl HolderSocket {
    /// Locks the folder and listens, replacing the socket of a dead holder. Must be called within a
    /// Tokio runtime.
    ///
    /// # Errors
    /// Another holder serves the folder, or the folder cannot be used.
    pub(super) fn claim(folder: &Path) -> Result<Self, HolderError> {
        let failed = |source| HolderError::Folder { folder: folder.to_owned(), source };
        create_state_folder(folder).map_err(failed)?;
        let lock = try_lock_folder(folder).map_err(failed)?;
        let lock = lock.ok_or_else(|| HolderError::AlreadyServed(folder.to_owned()))?;
        // Before a gateway can connect.
        let key = write_key(folder).map_err(failed)?;
        let listener = bind(folder).map_err(failed)?;
        Ok(Self { listener, key, folder: folder.to_owned(), _lock: lock })
    }
}

impl Drop for HolderSocket {
    fn drop(&mut self) {
        // While the lock is held, the socket is ours.
        let _ = std::fs::remove_file(self.folder.join(SOCKET));
    }
}

/// Creates `CONFIG_DIR/state` if only that folder is missing. Any other missing folder is an error.
fn create_state_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if folder.file_name().is_none_or(|name| name != STATE) {
        return Err(io::ErrorKind::NotFound.into());
    }
    DirBuilder::new().mode(0o700).create(folder)
}

/// Locks the folder. Returns `None` if another process has locked it.
fn try_lock_folder(folder: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(folder.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn write_key(folder: &Path) -> io::Result<String> {
    let key = uuid::Uuid::new_v4().simple().to_string();
    let path = folder.join(KEY);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(key.as_bytes())?;
    Ok(key)
}

/// Reads the key that the holder of a folder expects.
///
/// # Errors
/// There is no key, or this user may not read it.
pub(super) fn read_key(folder: &Path) -> io::Result<String> {
    std::fs::read_to_string(folder.join(KEY))
}

/// Calls `with` with a path of the socket that is never too long for a socket address.
fn with_short_path<T>(folder: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let handle = File::open(folder)?;
    with(&PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", handle.as_raw_fd())))
}

fn bind(folder: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(folder.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_short_path(folder, |path| net::UnixListener::bind(path))?;
    // The holder also compares the user of each connection.
    std::fs::set_permissions(folder.join(SOCKET), Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Connects to the holder of a folder.
///
/// # Errors
/// No holder answers, or it runs as another user.
pub(super) fn connect(folder: &Path) -> Result<UnixStream, HolderError> {
    let silent = |source| HolderError::NoAnswer { folder: folder.to_owned(), source };
    // Blocks only if the holder does not accept connections.
    let stream = with_short_path(folder, |path| net::UnixStream::connect(path)).map_err(silent)?;
    stream.set_nonblocking(true).map_err(silent)?;
    let stream = UnixStream::from_std(stream).map_err(silent)?;
    match peer_uid(&stream).map_err(silent)? {
        uid if uid == own_uid() => Ok(stream),
        uid => Err(HolderError::OtherUser { folder: folder.to_owned(), uid }),
    }
}

pub(super) fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    stream.peer_cred().map(|peer| peer.uid())
}

pub(super) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
