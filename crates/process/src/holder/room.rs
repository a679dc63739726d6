//! The runs in the holder with their processes, and the connected gateway, of which there is at
//! most one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::held::Held;
use super::wire::WireRun;

/// The runs and the connected gateway of a holder.
#[derive(Debug, Default)]
pub(super) struct Room {
    runs: BTreeMap<String, Run>,
    /// The number of the connected gateway.
    gateway: Option<u64>,
    /// Number of gateways that have connected so far.
    pub(super) gateways: u64,
}

#[derive(Debug, Default)]
struct Run {
    keepsake: Vec<u8>,
    /// How many gateways in a row have asked for this run without recording new output.
    asked: u32,
    /// The number of the last gateway that asked for it.
    asked_by: u64,
    processes: BTreeMap<u32, Arc<Held>>,
}

impl Room {
    /// Admits a gateway and returns its number, or `None` if another one is connected.
    pub(super) fn enter(&mut self) -> Option<u64> {
        if self.gateway.is_some() {
            return None;
        }
        self.gateways += 1;
        self.gateway = Some(self.gateways);
        self.gateway
    }

    /// Removes the gateway, and the runs without a process, which only that gateway used.
    pub(super) fn leave(&mut self) {
        self.gateway = None;
        self.runs.retain(|_, run| !run.processes.is_empty());
    }

    /// Returns whether a gateway is connected.
    pub(super) fn is_attended(&self) -> bool {
        self.gateway.is_some()
    }

    /// Returns whether there is no process.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.values().all(|run| run.processes.is_empty())
    }

    /// Returns the number of processes.
    pub(super) fn processes(&self) -> usize {
        self.runs.values().map(|run| run.processes.len()).sum()
    }

    /// Adds a process. Returns `false` if its run already has a running process with its number.
    pub(super) fn add(&mut self, held: &Arc<Held>) -> bool {
        let processes = &mut self.runs.entry(held.run.clone()).or_default().processes;
        if processes.get(&held.proc).is_some_and(|there| !there.is_over()) {
            return false;
        }
        processes.insert(held.proc, Arc::clone(held));
        true
    }

    /// Returns a process.
    pub(super) fn find(&self, run: &str, proc: u32) -> Option<Arc<Held>> {
        self.runs.get(run)?.processes.get(&proc).cloned()
    }

    /// Removes a process.
    pub(super) fn remove(&mut self, held: &Arc<Held>) {
        let Some(run) = self.runs.get_mut(&held.run) else { return };
        if run.processes.get(&held.proc).is_some_and(|there| Arc::ptr_eq(there, held)) {
            run.processes.remove(&held.proc);
        }
        if run.processes.is_empty() && self.gateway.is_none() {
            self.runs.remove(&held.run);
        }
    }

    /// Sets the keepsake of a run.
    pub(super) fn keep(&mut self, run: String, keepsake: Vec<u8>) {
        self.runs.entry(run).or_default().keepsake = keepsake;
    }

    /// Notes that output of a run was recorded.
    pub(super) fn progressed(&mut self, run: &str) {
        if let Some(run) = self.runs.get_mut(run) {
            run.asked = 0;
        }
    }

    /// Removes a run and returns its processes.
    pub(super) fn end(&mut self, run: &str) -> Vec<Arc<Held>> {
        self.runs.remove(run).into_iter().flat_map(|run| run.processes.into_values()).collect()
    }

    /// Removes all runs and returns their processes.
    pub(super) fn end_all(&mut self) -> Vec<Arc<Held>> {
        let runs = std::mem::take(&mut self.runs);
        runs.into_values().flat_map(|run| run.processes.into_values()).collect()
    }

    /// Returns the runs that have processes without a listener.
    pub(super) fn survivors(&mut self) -> Vec<WireRun> {
        let asking = self.gateways;
        self.runs.iter_mut().filter_map(|(name, run)| run.survivor(name, asking)).collect()
    }
}

impl Run {
    fn survivor(&mut self, name: &str, asking: u64) -> Option<WireRun> {
        let unheard = self.processes.iter().filter(|(_, held)| held.is_unheard());
        let processes: Vec<_> = unheard
            .map(|(proc, held)| {
                let (commands, recorded) = held.counts();
                (*proc, commands, recorded)
            })
            .collect();
        if processes.is_empty() {
            return None;
        }
        if self.asked_by != asking {
            self.asked_by = asking;
            self.asked += 1;
        }
        Some(WireRun {
            run: name.to_owned(),
            keepsake: self.keepsake.clone(),
            asked: self.asked,
            processes,
        })
    }
}
