//! Which gateway a process belongs to: the mark every process of a run carries in its environment.
//!
//! `AETHEEL_RUN=<pid namespace>-<gateway pid>-<gateway start>-<number>-<run>`. The namespace keeps a gateway on the host
//! from taking a container's processes for its own, the start time (clock ticks since boot) a recycled pid from passing
//! for a live gateway, the number two runs of one name apart.

use std::fs;
use std::io;

use super::table::Entry;

/// Name of the environment variable.
pub(super) const MARK: &str = "AETHEEL_RUN";

/// One gateway process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gateway {
    pub(super) namespace: String,
    pub(super) pid: i32,
    pub(super) start: u64,
}

impl Gateway {
    /// Returns this one.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub(super) fn own() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let namespace = fs::read_link("/proc/self/ns/pid")?.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        let entry = Entry::read(pid).ok_or_else(|| io::Error::other("`/proc/self/stat` cannot be read; is `/proc` mounted?"))?;
        Ok(Self { namespace, pid, start: entry.start })
    }

    /// Returns the mark of one of its runs.
    pub(super) fn mark(&self, number: u64, run: &str) -> String {
        format!("{}-{}-{}-{number}-{run}", self.namespace, self.pid, self.start)
    }

    /// Reads whose run a mark names.
    pub(super) fn of_mark(mark: &str) -> Option<Self> {
        let mut parts = mark.splitn(4, '-');
        let namespace = parts.next()?.to_owned();
        Some(Self { namespace, pid: parts.next()?.parse().ok()?, start: parts.next()?.parse().ok()? })
    }

    /// Whether it is still there; only meaningful in its own namespace.
    pub(super) fn is_running(&self) -> bool {
        Entry::read(self.pid).is_some_and(|entry| entry.start == self.start && !entry.zombie)
    }
}

/// Returns the mark of a process, where it has one and we may read it.
pub(super) fn mark_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment
        .split(|b| *b == 0)
        .find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))
        .map(|mark| String::from_utf8_lossy(mark).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_gateway_whatever_the_run_is_called() {
        let own = Gateway::own().unwrap();
        assert!(own.is_running());
        assert_eq!(Gateway::of_mark(&own.mark(7, "a-b-c")), Some(own.clone()));
        assert!(!Gateway { start: own.start + 1, ..own }.is_running());
        assert_eq!(Gateway::of_mark("turn-7"), None);
        assert_eq!(Gateway::of_mark(""), None);
    }
}
