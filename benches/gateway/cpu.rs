//! Processor time and memory, as Linux counts them (proc(5)).

use std::fs;
use std::time::Duration;

/// Processor time of a process, and of the children it has waited for.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// All threads of the process, user and system time.
    pub own: Duration,
    /// All children that have ended.
    pub children: Duration,
}

impl Used {
    /// Returns the time used so far by this process, in steps of a clock tick (10 ms).
    pub fn now() -> Self {
        used_by("self")
    }

    /// Returns the time used since an earlier measurement.
    pub fn since(before: Self) -> Self {
        let now = Self::now();
        Self { own: now.own - before.own, children: now.children - before.children }
    }
}

/// Returns the time that a process has used so far, in steps of a clock tick (10 ms).
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
    // USER_HZ is 100 on every common Linux.
    let time = |ticks: u64| Duration::from_millis(ticks * 10);
    Used { own: time(fields[0] + fields[1]), children: time(fields[2] + fields[3]) }
}

/// Returns the resident memory of this process in bytes.
pub fn resident() -> usize {
    resident_of(std::process::id(), "VmRSS")
}

/// Returns a size from a process's status in bytes: `VmRSS` is all resident memory, `RssAnon`
/// excludes pages that are mapped from files.
pub fn resident_of(process: u32, field: &str) -> usize {
    size(&fs::read_to_string(format!("/proc/{process}/status")).unwrap(), field)
}

/// Returns the memory of this process in bytes. A shared page counts in proportion to its users.
pub fn proportional() -> usize {
    size(&fs::read_to_string("/proc/self/smaps_rollup").unwrap(), "Pss:")
}

/// Returns the memory that only this process uses and that no file backs, in bytes: its cost to the
/// machine beyond the pages of its program.
pub fn private_of(process: u32) -> usize {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    size(&rollup, "Private_Dirty:")
}

fn size(status: &str, field: &str) -> usize {
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}
