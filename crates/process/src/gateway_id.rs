//! The mark in the environment of every process of a run, which identifies its gateway.
//!
//! The mark is `AETHEEL_RUN=<pid namespace>-<gateway pid>-<gateway start>-<number>-<run>`. With the
//! namespace, a gateway on the host does not mistake a container's processes for its own. With the
//! start time (clock ticks since boot), another process with a recycled pid is not mistaken for the
//! gateway. The number distinguishes runs with the same name. The holder is a gateway in this
//! sense.

use std::{fmt, fs, io};

use super::process_table::ProcessEntry;

pub(super) const MARK: &str = "AETHEEL_RUN";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GatewayId {
    pub(super) namespace: String,
    pub(super) pid: i32,
    pub(super) start: u64,
}

impl GatewayId {
    /// Returns the identity of this process.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub(super) fn own() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let namespace = fs::read_link("/proc/self/ns/pid")?
            .to_string_lossy()
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        let entry = ProcessEntry::read(pid).ok_or_else(|| {
            io::Error::other("`/proc/self/stat` cannot be read; is `/proc` mounted?")
        })?;
        Ok(Self { namespace, pid, start: entry.start })
    }

    pub(super) fn mark(&self, number: u64, run: &str) -> String {
        format!("{self}-{number}-{run}")
    }

    /// Parses the gateway at the beginning of a mark or of a cgroup's name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '-');
        let namespace = parts.next()?.to_owned();
        Some(Self {
            namespace,
            pid: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
        })
    }

    /// Returns whether another gateway has certainly ended. A gateway of another PID namespace may
    /// always be running.
    pub(super) fn knows_dead(&self, other: &Self) -> bool {
        self.namespace == other.namespace && !other.is_running()
    }

    fn is_running(&self) -> bool {
        ProcessEntry::read(self.pid).is_some_and(|entry| entry.start == self.start && !entry.zombie)
    }
}

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.namespace, self.pid, self.start)
    }
}

/// Returns the mark of a process, or `None` if its environment has no mark or cannot be read.
pub(super) fn read_mark(pid: i32) -> Option<String> {
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
    fn the_gateway_of_a_mark_is_parsed_for_any_run_name() {
        let own = GatewayId::own().unwrap();
        assert_eq!(GatewayId::parse(&own.mark(7, "a-b-c")), Some(own.clone()));
        assert_eq!(GatewayId::parse("turn-7"), None);
        assert_eq!(GatewayId::parse(""), None);
    }

    #[test]
    fn only_gateways_of_our_namespace_are_known_to_be_dead() {
        let own = GatewayId::own().unwrap();
        let recycled = GatewayId { start: own.start + 1, ..own.clone() };
        let elsewhere = GatewayId { namespace: "1".to_owned(), ..recycled.clone() };
        assert!(own.knows_dead(&recycled) && !own.knows_dead(&own) && !own.knows_dead(&elsewhere));
    }
}
