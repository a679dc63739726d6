//! Custody without a cgroup: all processes of a run stay our descendants, and are found by descent.
//!
//! This process becomes the subreaper of its descendants (PR_SET_CHILD_SUBREAPER(2const)), so an
//! orphan becomes our child. The run of an orphan is identified by the mark in its environment, and
//! by a tag if it has cleared its environment. The tag is the soft limit of file locks, which every
//! process inherits and which has had no effect since Linux 2.4.25 (getrlimit(2)). A child without
//! a tag was started by other code of this process, and is left alone.
//!
//! A child that has changed both its mark and its tag is killed if all children of this process are
//! known to be agents ([`claim_children`]).
//!
//! Two kinds of processes escape: those that fork faster than `/proc` can be read, and those that
//! hide after the gateway was killed. Only cgroups prevent that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::gateway_id::read_mark;
use super::process_table::{self, ProcessEntry};

/// The children of this process that are not orphans: the leaders of all launchers' runs, and
/// holders.
#[derive(Debug)]
pub(super) struct Leaders {
    /// Tags of the leaders whose process ids are not known yet.
    starting: BTreeSet<u64>,
    /// Leaders that are not yet reaped, by process id, with the mark and the tag of their runs.
    started: BTreeMap<i32, (String, u64)>,
    /// Children that are not agents, that is, holders.
    non_agents: BTreeSet<i32>,
}

static LEADERS: Mutex<Leaders> = Mutex::new(Leaders {
    starting: BTreeSet::new(),
    started: BTreeMap::new(),
    non_agents: BTreeSet::new(),
});

/// Whether all children of this process were started by launchers.
static SOLE_SPAWNER: AtomicBool = AtomicBool::new(false);

/// Declares that launchers start all children of this process, so that a child of unknown origin
/// may be killed.
pub(super) fn claim_children() {
    SOLE_SPAWNER.store(true, Ordering::Relaxed);
}

pub(super) fn tag(number: u64) -> u64 {
    u64::from(std::process::id()) << 32 | number & u64::from(u32::MAX)
}

fn tag_of(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max file locks"))?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Locks the leaders. The lock must not be held while a program is executed or `/proc` is read,
/// because other runs start and end in the meantime.
pub(super) fn leaders() -> MutexGuard<'static, Leaders> {
    LEADERS.lock()
}

impl Leaders {
    /// Removes a leader that was reaped, or that the caller reaps while it holds the lock.
    pub(super) fn forget(&mut self, leader: i32) {
        self.started.remove(&leader);
    }

    /// Returns whether a process with this mark and tag belongs to a run that has not ended.
    fn owns_process(&self, mark: Option<&str>, tag: Option<u64>) -> bool {
        self.started
            .values()
            .any(|(known, number)| mark.map_or(tag == Some(*number), |mark| mark == known))
    }

    fn knows(&self, pid: i32) -> bool {
        self.started.contains_key(&pid) || self.non_agents.contains(&pid)
    }

    /// Adds a child that is not an agent, so that it is neither killed nor reaped here.
    pub(super) fn add_non_agent(&mut self, child: i32) {
        self.non_agents.insert(child);
    }

    /// Removes such a child after it was reaped.
    pub(super) fn remove_non_agent(&mut self, child: i32) {
        self.non_agents.remove(&child);
    }
}

/// A leader that is being started. Its tag is known before its process id is.
#[derive(Debug)]
pub(super) struct StartingLeader(u64);

impl StartingLeader {
    /// Announces a leader. The value must be kept until the leader is started or reaped.
    pub(super) fn announce(tag: u64) -> Self {
        leaders().starting.insert(tag);
        Self(tag)
    }

    pub(super) fn started(self, leader: i32, mark: &str) {
        leaders().started.insert(leader, (mark.to_owned(), self.0));
    }
}

impl Drop for StartingLeader {
    fn drop(&mut self) {
        leaders().starting.remove(&self.0);
    }
}

/// Makes this process the parent of its descendants' orphans.
pub(super) fn adopt_orphans() {
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "cannot adopt orphaned processes; an agent's background processes may survive it");
    }
}

/// How often the parents of a process are read again because one of them has ended meanwhile.
const MAX_WALKS: usize = 20;

/// Returns whether a process is a descendant of this one. A process whose parents cannot be read
/// counts as a descendant.
pub(super) fn is_descendant(pid: i32) -> bool {
    let own = std::process::id() as i32;
    let walk = || {
        let mut process = ProcessEntry::read(pid)?;
        while process.parent > 1 && process.parent != own {
            process = ProcessEntry::read(process.parent)?;
        }
        Some(process.parent == own)
    };
    (0..MAX_WALKS).find_map(|_| walk()).unwrap_or(true)
}

#[derive(Debug)]
pub(super) struct RunProcesses {
    pub(super) leader: i32,
    pub(super) mark: String,
    pub(super) tag: u64,
}

impl RunProcesses {
    /// Kills every process of the run that runs now, and reaps orphans. Returns the number of
    /// processes that were killed.
    pub(super) fn kill_round(&self) -> usize {
        // Processes that start after this are not in the table.
        let table = process_table::all();
        let leaders = leaders();
        let orphans = orphans(&table, &leaders);
        let hidden = unmarked_children(&table, &leaders);
        let roots = orphans.iter().filter(|(entry, tag)| {
            !entry.zombie && self.owns(read_mark(entry.pid).as_deref(), *tag)
        });
        let roots = roots
            .map(|(entry, _)| entry.pid)
            .chain([self.leader])
            .chain(hidden.iter().map(|entry| entry.pid));
        let victims = descendants(&table, roots.collect());
        for entry in &victims {
            if let Err(error) = entry.kill() {
                tracing::debug!(pid = entry.pid, run = self.mark, %error, "cannot kill a process of the run");
            }
        }
        reap(orphans.iter().map(|(entry, _)| entry).chain(&hidden));
        victims.len()
    }

    fn owns(&self, mark: Option<&str>, tag: u64) -> bool {
        mark.map_or(self.tag == tag, |mark| mark == self.mark)
    }
}

/// Reaps orphans that have ended, and kills children that belong to no run.
pub(super) fn reap_strays() {
    let table = process_table::all();
    let leaders = leaders();
    let (orphans, hidden) = (orphans(&table, &leaders), unmarked_children(&table, &leaders));
    for entry in descendants(&table, hidden.iter().map(|entry| entry.pid).collect()) {
        tracing::warn!(pid = entry.pid, "killing a process that hid its run");
        // If it cannot be killed, the next round logs it again.
        let _ = entry.kill();
    }
    reap(orphans.iter().map(|(entry, _)| entry).chain(&hidden));
}

/// Returns the children that are neither leaders nor part of a run, because they have removed their
/// mark and their tag. Returns nothing while a leader is being started, whose process id is
/// unknown.
fn unmarked_children(table: &[ProcessEntry], leaders: &Leaders) -> Vec<ProcessEntry> {
    if !SOLE_SPAWNER.load(Ordering::Relaxed) || !leaders.starting.is_empty() {
        return Vec::new();
    }
    let own = std::process::id() as i32;
    let children = table.iter().filter(|entry| entry.parent == own && !leaders.knows(entry.pid));
    children
        .filter(|entry| !leaders.owns_process(read_mark(entry.pid).as_deref(), tag_of(entry.pid)))
        .copied()
        .collect()
}

/// Returns these processes and their descendants, without zombies.
fn descendants(table: &[ProcessEntry], mut found: BTreeSet<i32>) -> Vec<ProcessEntry> {
    // Parents may come after their children in the table.
    loop {
        let before = found.len();
        found.extend(
            table
                .iter()
                .filter(|entry| found.contains(&entry.parent))
                .map(|entry| entry.pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            return table
                .iter()
                .filter(|entry| !entry.zombie && found.contains(&entry.pid))
                .copied()
                .collect();
        }
    }
}

/// Returns the children that belong to a run and are not its leader, with their tags. The tags are
/// read while the leaders are locked: a leader that was reaped after the table was read no longer
/// has a tag.
fn orphans(table: &[ProcessEntry], leaders: &Leaders) -> Vec<(ProcessEntry, u64)> {
    let own = std::process::id() as i32;
    // If this process runs under another gateway, it has a tag, which its own children inherit.
    let inherited = tag_of(own);
    let children = table.iter().filter(|entry| entry.parent == own && !leaders.knows(entry.pid));
    let orphan = |tag: &u64| Some(*tag) != inherited && !leaders.starting.contains(tag);
    children.filter_map(|entry| Some((*entry, tag_of(entry.pid).filter(orphan)?))).collect()
}

/// Reaps orphans only, because the status of any other child belongs to the code that started it.
fn reap<'a>(orphans: impl Iterator<Item = &'a ProcessEntry>) {
    for entry in orphans.filter(|entry| entry.zombie) {
        if let Some(pid) = Pid::from_raw(entry.pid) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_in_any_order_of_the_table() {
        let entry = |pid, parent, zombie| ProcessEntry { pid, parent, start: 1, zombie };
        let table = [
            entry(14, 12, false),
            entry(11, 10, true),
            entry(12, 11, false),
            entry(10, 1, false),
            entry(20, 1, false),
            entry(21, 20, false),
        ];
        let found: Vec<i32> =
            descendants(&table, BTreeSet::from([10, 99])).iter().map(|entry| entry.pid).collect();
        assert_eq!(found, [14, 12, 10]);
    }

    #[test]
    fn a_mark_has_precedence_over_the_tag() {
        let processes = RunProcesses { leader: 1, mark: "a".to_owned(), tag: tag(1) };
        assert!(processes.owns(Some("a"), tag(2)) && processes.owns(None, tag(1)));
        assert!(!processes.owns(Some("b"), tag(1)) && !processes.owns(None, tag(2)));
    }

    #[test]
    fn a_child_that_other_code_started_is_not_an_orphan() {
        let mut child =
            std::process::Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
        let pid = child.id() as i32;
        let found =
            orphans(&process_table::all(), &leaders()).iter().any(|(entry, _)| entry.pid == pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!found);
    }
}
