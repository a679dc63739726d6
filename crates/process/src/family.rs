//! Custody without a cgroup: every process of a run stays our descendant, so it can be found by
//! descent.
//!
//! The gateway becomes the subreaper of its descendants (PR_SET_CHILD_SUBREAPER(2const)): a process
//! whose parent ends becomes our child. Whose run such a orphan belongs to is told by the mark in
//! its environment, and by a tag when it has cleared that: the soft limit of file locks, which is
//! inherited by everything and has meant nothing since Linux 2.4.25 (getrlimit(2)). A child without
//! a tag was started by someone else in this process and is left alone.
//!
//! What changes both is nobody's, and ended where all children of this process come from here
//! ([`claim_children`]).
//!
//! Limits: what forks faster than `/proc` can be read escapes, and what hides after the gateway was
//! killed. Cgroups exist for that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::gateway::mark_of;
use super::table::{self, Entry};

/// The leaders of all launchers in this process, so that no search takes one for a orphan.
#[derive(Debug)]
pub(super) struct Leaders {
    /// Tags of those whose ids are not known yet.
    starting: BTreeSet<u64>,
    /// Those that were started and not yet reaped, with the mark and the tag of their runs.
    started: BTreeMap<i32, (String, u64)>,
    /// Children that are no agents: holders.
    spared: BTreeSet<i32>,
}

static LEADERS: Mutex<Leaders> = Mutex::new(Leaders {
    starting: BTreeSet::new(),
    started: BTreeMap::new(),
    spared: BTreeSet::new(),
});

/// Whether nobody else in this process starts programs.
static ALONE: AtomicBool = AtomicBool::new(false);

/// From now on every child of this process is the leader of a run, of its processes, or to be ended.
pub(super) fn claim_children() {
    ALONE.store(true, Ordering::Relaxed);
}

/// Returns the tag of a run of ours.
pub(super) fn tag(number: u64) -> u64 {
    u64::from(std::process::id()) << 32 | number & u64::from(u32::MAX)
}

/// Returns the tag of a process.
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

/// Returns the leaders. Not to be held while a program is loaded or `/proc` is read: others start
/// and end meanwhile.
pub(super) fn leaders() -> MutexGuard<'static, Leaders> {
    LEADERS.lock()
}

impl Leaders {
    /// Notes that a leader was reaped, or is about to be: nobody else takes its status while this
    /// is held.
    pub(super) fn forget(&mut self, leader: i32) {
        self.started.remove(&leader);
    }

    /// Whether a process with this mark and tag belongs to a run that is not over.
    fn own(&self, mark: Option<&str>, tag: Option<u64>) -> bool {
        self.started
            .values()
            .any(|(known, number)| mark.map_or(tag == Some(*number), |mark| mark == known))
    }

    fn knows(&self, pid: i32) -> bool {
        self.started.contains_key(&pid) || self.spared.contains(&pid)
    }

    /// Notes a child that is no agent: it is neither ended nor reaped here.
    pub(super) fn spare(&mut self, child: i32) {
        self.spared.insert(child);
    }

    /// Notes that such a child was reaped.
    pub(super) fn forget_spared(&mut self, child: i32) {
        self.spared.remove(&child);
    }
}

/// A leader that is being started. It carries its tag before anything else can be told of it.
#[derive(Debug)]
pub(super) struct Starting(u64);

impl Starting {
    /// Announces it; to be held until it is a leader or has been reaped.
    pub(super) fn announce(tag: u64) -> Self {
        leaders().starting.insert(tag);
        Self(tag)
    }

    /// It is started.
    pub(super) fn started(self, leader: i32, mark: &str) {
        leaders().started.insert(leader, (mark.to_owned(), self.0));
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        leaders().starting.remove(&self.0);
    }
}

/// Makes orphans of our descendants our children, from now on.
pub(super) fn adopt_orphans() {
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "cannot adopt orphaned processes; an agent's background processes may survive it");
    }
}

/// Whose processes are meant.
#[derive(Debug)]
pub(super) struct RunProcesses {
    pub(super) leader: i32,
    pub(super) mark: String,
    pub(super) tag: u64,
}

impl RunProcesses {
    /// Kills every process of the run that is there now, and reaps orphans; returns how many there
    /// were.
    pub(super) fn kill_round(&self) -> usize {
        // Who is started from here on is not in the table.
        let table = table::all();
        let leaders = leaders();
        let orphans = orphans(&table, &leaders);
        let hidden = nobodys(&table, &leaders);
        let roots = orphans
            .iter()
            .filter(|(entry, tag)| !entry.zombie && self.owns(mark_of(entry.pid).as_deref(), *tag));
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

/// Reaps orphans that have ended, and ends what is nobody's.
pub(super) fn reap_strays() {
    let table = table::all();
    let leaders = leaders();
    let (orphans, hidden) = (orphans(&table, &leaders), nobodys(&table, &leaders));
    for entry in descendants(&table, hidden.iter().map(|entry| entry.pid).collect()) {
        tracing::warn!(pid = entry.pid, "ending a process that hid which run it belongs to");
        // One that cannot be killed is told of again.
        let _ = entry.kill();
    }
    reap(orphans.iter().map(|(entry, _)| entry).chain(&hidden));
}

/// Children of ours that are neither leaders nor of any run's processes: they took off all they could be
/// known by. None while a leader is being started, for it is not known yet.
fn nobodys(table: &[Entry], leaders: &Leaders) -> Vec<Entry> {
    if !ALONE.load(Ordering::Relaxed) || !leaders.starting.is_empty() {
        return Vec::new();
    }
    let own = std::process::id() as i32;
    let children = table.iter().filter(|entry| entry.parent == own && !leaders.knows(entry.pid));
    children
        .filter(|entry| !leaders.own(mark_of(entry.pid).as_deref(), tag_of(entry.pid)))
        .copied()
        .collect()
}

/// Returns these processes and all that descend from them, without those that have ended.
fn descendants(table: &[Entry], mut found: BTreeSet<i32>) -> Vec<Entry> {
    // Parents may stand behind their children in the table.
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

/// Children of ours that belong to some run and are not its leader, with their tags. The tags are
/// read under the lock of the leaders: a leader that was reaped since the table was read has none
/// any more.
fn orphans(table: &[Entry], leaders: &Leaders) -> Vec<(Entry, u64)> {
    let own = std::process::id() as i32;
    // We may have a tag ourselves, from a gateway that we run under; our own children have it then.
    let inherited = tag_of(own);
    let children = table.iter().filter(|entry| entry.parent == own && !leaders.knows(entry.pid));
    let orphan = |tag: &u64| Some(*tag) != inherited && !leaders.starting.contains(tag);
    children.filter_map(|entry| Some((*entry, tag_of(entry.pid).filter(orphan)?))).collect()
}

/// Takes the status of orphans only: that of any other child belongs to whoever started it.
fn reap<'a>(orphans: impl Iterator<Item = &'a Entry>) {
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
    fn descendants_are_found_in_any_order_and_nobody_else() {
        let entry = |pid, parent, zombie| Entry { pid, parent, start: 1, zombie };
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
    fn a_mark_decides_before_the_tag() {
        let processes = RunProcesses { leader: 1, mark: "a".to_owned(), tag: tag(1) };
        assert!(processes.owns(Some("a"), tag(2)) && processes.owns(None, tag(1)));
        assert!(!processes.owns(Some("b"), tag(1)) && !processes.owns(None, tag(2)));
    }

    #[test]
    fn a_child_of_someone_else_in_this_process_is_no_stray() {
        let mut child =
            std::process::Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
        let pid = child.id() as i32;
        let found = orphans(&table::all(), &leaders()).iter().any(|(entry, _)| entry.pid == pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!found);
    }
}
