//! Custody without a cgroup: every process of a run stays our descendant, so it can be found by descent.
//!
//! The gateway becomes the subreaper of its descendants (PR_SET_CHILD_SUBREAPER(2const)): a process whose parent ends
//! becomes our child. Such a stray belongs to the run its mark names; without a readable mark (it cleared its
//! environment) to whichever run ends first: nothing tells, and none may be left over. Whether a child is a stray or
//! someone else's is told by the session: runs have their own, and no process can return into ours.
//!
//! Limits: what forks faster than `/proc` can be read escapes. Cgroups exist for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::gateway::mark_of;
use super::table::{self, Entry};

/// Leaders that were started and not yet reaped, with their marks, of all launchers in this process.
pub(super) type Leaders = BTreeMap<i32, String>;

static LEADERS: Mutex<Leaders> = Mutex::new(BTreeMap::new());

/// Returns the leaders. Held while one is started, so that no search takes it for a stray.
pub(super) fn leaders() -> MutexGuard<'static, Leaders> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes orphans of our descendants our children, from now on.
pub(super) fn adopt_orphans() {
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "cannot adopt orphaned processes; an agent's background processes may survive it");
    }
}

/// Kills every process of a run that is there now, and reaps strays; returns how many there were.
pub(super) fn kill_round(leader: i32, mark: &str) -> usize {
    let leaders = leaders();
    let table = table::all();
    let victims = members(&table, leader, mark, &leaders);
    for entry in &victims {
        if let Err(error) = entry.kill() {
            tracing::debug!(pid = entry.pid, run = mark, %error, "cannot kill a process of the run");
        }
    }
    reap(&table, &leaders);
    victims.len()
}

/// Reaps strays that have ended.
pub(super) fn reap_strays() {
    let leaders = leaders();
    reap(&table::all(), &leaders);
}

fn members(table: &[Entry], leader: i32, mark: &str, leaders: &Leaders) -> Vec<Entry> {
    let roots = strays(table, leaders)
        .filter(|entry| !entry.zombie)
        .filter(|entry| match mark_of(entry.pid) {
            Some(found) => found == mark,
            None => true,
        })
        .map(|entry| entry.pid)
        .chain([leader]);
    let mut found: BTreeSet<i32> = roots.collect();
    // Parents may stand behind their children in the table.
    loop {
        let before = found.len();
        found.extend(table.iter().filter(|entry| found.contains(&entry.parent)).map(|entry| entry.pid).collect::<Vec<_>>());
        if found.len() == before {
            break;
        }
    }
    table.iter().filter(|entry| !entry.zombie && found.contains(&entry.pid)).copied().collect()
}

/// Children of ours that nobody here started.
fn strays<'a>(table: &'a [Entry], leaders: &'a Leaders) -> impl Iterator<Item = &'a Entry> {
    let own = std::process::id() as i32;
    let session = table.iter().find(|entry| entry.pid == own).map(|entry| entry.session);
    table.iter().filter(move |entry| entry.parent == own && Some(entry.session) != session && !leaders.contains_key(&entry.pid))
}

/// Takes the status of strays only: that of any other child belongs to whoever started it.
fn reap(table: &[Entry], leaders: &Leaders) {
    for entry in strays(table, leaders).filter(|entry| entry.zombie) {
        if let Some(pid) = Pid::from_raw(entry.pid) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descent_decides_and_neither_other_runs_nor_our_own_children_are_touched() {
        let own = std::process::id() as i32;
        let entry = |pid, parent, session| Entry { pid, parent, session, start: 1, zombie: false };
        // Pids beyond any that Linux gives, so that none of them has a mark.
        let (a, b) = (1_000_000_001, 1_000_000_101);
        let table = [
            entry(own, 1, 10),
            entry(a + 2, a + 1, 77),
            entry(a + 1, a, a),
            entry(a, own, a),
            entry(b, own, b),
            entry(b + 1, b, b),
            entry(a + 50, own, a + 50),
            entry(a + 51, a + 50, a + 50),
            entry(a + 60, own, 10),
            entry(a + 61, 1, a),
        ];
        let leaders = Leaders::from([(a, "a".to_owned()), (b, "b".to_owned())]);
        let found: Vec<i32> = members(&table, a, "a", &leaders).iter().map(|entry| entry.pid - a).collect();
        assert_eq!(found, [2, 1, 0, 50, 51]);
    }
}
