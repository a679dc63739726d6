//! The log of a holder that a gateway started.
//!
//! It is a separate file. If the holder inherited the gateway's stderr, a program that reads the
//! gateway's log to its end would also wait for the end of the holder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const FILE: &str = "holder.log";
/// The part of the log before the file was emptied last.
const OLDER_FILE: &str = "holder.log.1";
/// Size in bytes above which the file is emptied.
const LIMIT: u64 = 256 << 10;

pub(super) fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

/// Opens the log for a holder that is about to start.
///
/// # Errors
/// The file cannot be created or opened.
pub(super) fn open(state: &Path) -> io::Result<File> {
    truncate_long(state);
    OpenOptions::new().create(true).append(true).mode(0o600).open(path(state))
}

/// Moves the content of a long log to a second file, which it replaces. The holder may continue to
/// write, because it appends to the file.
pub(super) fn truncate_long(state: &Path) {
    let (path, older) = (path(state), state.join(OLDER_FILE));
    if !path.metadata().is_ok_and(|log| log.len() > LIMIT) {
        return;
    }
    let emptied = std::fs::copy(&path, older)
        .and_then(|_| OpenOptions::new().write(true).open(&path)?.set_len(0));
    if let Err(error) = emptied {
        tracing::warn!(log = %path.display(), %error, "cannot empty the holder's log");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_moved_and_the_writer_continues_in_the_emptied_file() {
        use std::io::Write as _;
        let state = tempfile::tempdir().expect("a folder");
        let mut log = open(state.path()).expect("opened");
        truncate_long(state.path());
        assert!(!state.path().join(OLDER_FILE).exists());
        log.write_all(&vec![b'x'; LIMIT as usize + 1]).expect("written");
        truncate_long(state.path());
        log.write_all(b"on").expect("written");
        let older = state.path().join(OLDER_FILE).metadata().expect("there").len();
        assert_eq!((older, path(state.path()).metadata().expect("there").len()), (LIMIT + 1, 2));
    }
}
