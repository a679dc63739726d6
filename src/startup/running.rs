//! Whether a gateway serves a configuration folder now.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::config::Config;

/// The gateway that serves the folder now. Looks without locking: one that starts at this moment
/// must get its lock.
pub fn gateway_of(config: &Config) -> Option<u32> {
    let lock = fs::metadata(config.config_dir.join("state/gateway.lock")).map(|file| file.ino());
    lock.ok()
        .and_then(|inode| holder(&fs::read_to_string("/proc/locks").unwrap_or_default(), inode))
}

/// Who holds a lock on a file, by `/proc/locks` (proc_locks(5)).
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let of_file = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"FLOCK")
            && words.get(5).is_some_and(|file| file.rsplit(':').next() == Some(&inode.to_string()))
    };
    locks.lines().find(of_file)?.split_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_serves_the_folder_is_seen() {
        let locks = "1: POSIX  ADVISORY  WRITE 77 08:01:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 1234 08:01:42 0 EOF\n";
        assert_eq!((holder(locks, 42), holder(locks, 2)), (Some(1234), None));
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().lock().unwrap();
        let inode = fs::metadata(file.path()).unwrap().ino();
        let seen = holder(&fs::read_to_string("/proc/locks").unwrap(), inode);
        assert_eq!(seen, Some(std::process::id()));
    }
}
