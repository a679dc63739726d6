//! The runs in the holder with their processes, and the connected gateway, of which there is at
//! most one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::held_process::HeldProcess;
use aetheel_turn::{SurvivingProcess, Survivor};

#[derive(Debug, Default)]
pub(super) struct HeldRuns {
    runs: BTreeMap<String, HeldRun>,
    gateway: Option<u64>,
    /// Number of gateways that have connected so far.
    pub(super) gateway_count: u64,
    /// Whether the holder is ending, so that no process is started or adopted.
    pub(super) are_closed: bool,
    /// Whether processes were killed without a gateway, so that output may be lost.
    pub(super) were_abandoned: bool,
}

#[derive(Debug, Default)]
struct HeldRun {
    keepsake: Vec<u8>,
    /// How many gateways in a row have asked for this run without recording new output.
    adoptions: u32,
    /// The number of the last gateway that asked for it.
    last_adopter: u64,
    processes: BTreeMap<u32, Arc<HeldProcess>>,
}

impl HeldRuns {
    /// Admits a gateway and returns its number, or `None` if another one is connected.
    pub(super) fn admit_gateway(&mut self) -> Option<u64> {
        if self.gateway.is_some() {
            return None;
        }
        self.gateway_count += 1;
        self.gateway = Some(self.gateway_count);
        self.gateway
    }

    /// Removes the gateway, and the runs without a process, which only that gateway used.
    pub(super) fn release_gateway(&mut self) {
        self.gateway = None;
        self.runs.retain(|_, run| !run.processes.is_empty());
    }

    pub(super) fn has_gateway(&self) -> bool {
        self.gateway.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.values().all(|run| run.processes.is_empty())
    }

    pub(super) fn processes(&self) -> usize {
        self.runs.values().map(|run| run.processes.len()).sum()
    }

    /// Adds a process. Returns `false` if its run already has a running process with its number.
    pub(super) fn insert(&mut self, held: &Arc<HeldProcess>) -> bool {
        let processes = &mut self.runs.entry(held.run.clone()).or_default().processes;
        if processes.get(&held.proc).is_some_and(|there| !there.has_ended()) {
            return false;
        }
        processes.insert(held.proc, Arc::clone(held));
        true
    }

    pub(super) fn find(&self, run: &str, proc: u32) -> Option<Arc<HeldProcess>> {
        self.runs.get(run)?.processes.get(&proc).cloned()
    }

    pub(super) fn remove(&mut self, held: &Arc<HeldProcess>) {
        let Some(run) = self.runs.get_mut(&held.run) else { return };
        if run.processes.get(&held.proc).is_some_and(|there| Arc::ptr_eq(there, held)) {
            run.processes.remove(&held.proc);
        }
        if run.processes.is_empty() && self.gateway.is_none() {
            self.runs.remove(&held.run);
        }
    }

    pub(super) fn set_keepsake(&mut self, run: String, keepsake: Vec<u8>) {
        self.runs.entry(run).or_default().keepsake = keepsake;
    }

    /// Notes that output of a run was recorded.
    pub(super) fn reset_adoptions(&mut self, run: &str) {
        if let Some(run) = self.runs.get_mut(run) {
            run.adoptions = 0;
        }
    }

    pub(super) fn remove_run(&mut self, run: &str) -> Vec<Arc<HeldProcess>> {
        self.runs.remove(run).into_iter().flat_map(|run| run.processes.into_values()).collect()
    }

    /// Removes all runs and kills their processes. Returns the number of processes.
    pub(super) fn abandon_all(&mut self) -> usize {
        let left = self.remove_all();
        left.iter().for_each(|held| held.abandon());
        self.were_abandoned |= !left.is_empty();
        left.len()
    }

    /// Removes all runs and returns their processes. No process is started or adopted from now on.
    pub(super) fn close(&mut self) -> Vec<Arc<HeldProcess>> {
        self.are_closed = true;
        self.remove_all()
    }

    fn remove_all(&mut self) -> Vec<Arc<HeldProcess>> {
        let runs = std::mem::take(&mut self.runs);
        runs.into_values().flat_map(|run| run.processes.into_values()).collect()
    }

    /// Returns the runs that have processes without a listener.
    pub(super) fn survivors(&mut self) -> Vec<Survivor> {
        let asking = self.gateway_count;
        self.runs.iter_mut().filter_map(|(name, run)| run.reclaim(name, asking)).collect()
    }
}

impl HeldRun {
    fn reclaim(&mut self, name: &str, asking: u64) -> Option<Survivor> {
        let unheard = self.processes.iter().filter(|(_, held)| held.has_no_listener());
        let processes: Vec<_> = unheard
            .map(|(proc, held)| {
                let (commands, recorded) = held.counts();
                SurvivingProcess { proc: *proc, commands, recorded }
            })
            .collect();
        if processes.is_empty() {
            return None;
        }
        if self.last_adopter != asking {
            self.last_adopter = asking;
            self.adoptions += 1;
        }
        Some(Survivor {
            run: name.to_owned(),
            keepsake: self.keepsake.clone(),
            attach_count: self.adoptions,
            processes,
        })
    }
}
