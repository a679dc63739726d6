//! The processes of this machine, read from `/proc` (proc_pid_stat(5)).

use std::fs;
use std::io::Read;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessEntry {
    pub(super) pid: i32,
    pub(super) parent: i32,
    /// Start time in clock ticks since boot. Together with the pid, it identifies the process.
    pub(super) start: u64,
    /// Whether it has ended and is not yet reaped.
    pub(super) zombie: bool,
}

impl ProcessEntry {
    /// Returns the process, or `None` if it does not exist.
    pub(super) fn read(pid: i32) -> Option<Self> {
        // A single read, because this happens for every process of the machine.
        let mut text = [0; 1024];
        let count = fs::File::open(format!("/proc/{pid}/stat"))
            .and_then(|mut file| file.read(&mut text))
            .ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&text[..count]))
    }

    fn parse(pid: i32, stat: &str) -> Option<Self> {
        // The name is in parentheses and may contain any character.
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let start = fields.nth(17)?.parse().ok()?;
        Some(Self { pid, parent, start, zombie: matches!(state, "Z" | "X") })
    }

    /// Kills this process, and never another one that has got its pid.
    ///
    /// # Errors
    /// The system's error. It is not an error if the process has already ended.
    pub(super) fn kill(&self) -> rustix::io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(()) };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error),
        };
        // The handle refers to the process that has the pid now, which may be another one.
        if Self::read(self.pid).is_none_or(|now| now.start != self.start) {
            return Ok(());
        }
        match pidfd_send_signal(&handle, Signal::KILL) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => other,
        }
    }
}

/// Returns all visible processes. Takes about 12 µs of CPU time for each.
pub(super) fn all() -> Vec<ProcessEntry> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(ProcessEntry::read)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_parentheses_and_spaces() {
        let stat = "4711 (a) R (b c) S 1 2 3 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4217 1 1";
        assert_eq!(
            ProcessEntry::parse(4711, stat),
            Some(ProcessEntry { pid: 4711, parent: 1, start: 4217, zombie: false })
        );
        assert_eq!(ProcessEntry::parse(1, "1 (x) Z 1"), None);
    }

    #[test]
    fn the_table_contains_this_process() {
        let own = std::process::id() as i32;
        assert!(all().iter().any(|entry| entry.pid == own && !entry.zombie));
    }
}
