//! Processor time and memory, as Linux counts them (proc(5)).

use std::fs;
use std::time::Duration;

/// Processor time this process has used, and the children it has waited for.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// All threads of this process, user and system.
    pub own: Duration,
    /// All children that have ended.
    pub children: Duration,
}

impl Used {
    /// Up to now; exact to a clock tick, 10 ms.
    pub fn now() -> Self {
        used_by("self")
    }

    /// Since an earlier moment.
    pub fn since(before: Self) -> Self {
        let now = Self::now();
        Self { own: now.own - before.own, children: now.children - before.children }
    }
}

/// Returns the time a process has used up to now; exact to a clock tick, 10 ms.
pub fn used_by(process: &str) -> Used {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<u64> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|field| field.parse().unwrap())
        .collect();
    // USER_HZ is 100 on every Linux that people run.
    let time = |ticks: u64| Duration::from_millis(ticks * 10);
    Used { own: time(fields[0] + fields[1]), children: time(fields[2] + fields[3]) }
}

/// Bytes of this process in memory.
pub fn resident() -> usize {
    resident_of(std::process::id(), "VmRSS")
}

/// A size from a process' status, bytes: `VmRSS` all of it, `RssAnon` without what is only a file
/// in memory.
pub fn resident_of(process: u32, field: &str) -> usize {
    size(&fs::read_to_string(format!("/proc/{process}/status")).unwrap(), field)
}

/// Bytes of this process in memory, of shared pages its share.
pub fn proportional() -> usize {
    size(&fs::read_to_string("/proc/self/smaps_rollup").unwrap(), "Pss:")
}

/// Bytes of memory that nothing but a process has, and that are in no file: what it costs the
/// machine beyond the pages of its program.
pub fn private_of(process: u32) -> usize {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    size(&rollup, "Private_Dirty:")
}

fn size(status: &str, field: &str) -> usize {
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}
