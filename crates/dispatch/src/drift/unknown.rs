//! Counts, by kind, the output of agents that a backend does not recognise. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use aetheel_store::workspace::{Drift, DriftKey, bound_drift};

/// The counts of all kinds, and the kinds whose counts are not saved yet.
#[derive(Debug, Default)]
pub(super) struct UnknownOutputs {
    all: BTreeMap<DriftKey, Drift>,
    changed: BTreeSet<DriftKey>,
}

impl UnknownOutputs {
    pub(super) fn new(known: Vec<Drift>) -> Self {
        Self {
            all: known.into_iter().map(|drift| (drift.key.clone(), drift)).collect(),
            changed: BTreeSet::new(),
        }
    }

    /// Counts one output. Returns whether its kind is new with this version of the agent: no
    /// component of the backend had it before.
    pub(super) fn count(&mut self, key: DriftKey, recording: &str, now: Timestamp) -> bool {
        if let Some(known) = self.all.get_mut(&key) {
            known.times = known.times.saturating_add(1);
            known.last = now;
            recording.clone_into(&mut known.recording);
            self.changed.insert(key);
            return false;
        }
        let begin = DriftKey { component: String::new(), ..key.clone() };
        let next = self.all.range(begin..).next();
        let known = next.is_some_and(|(next, _)| {
            (&next.backend, &next.agent_version, &next.what)
                == (&key.backend, &key.agent_version, &key.what)
        });
        let backend = key.backend.clone();
        self.changed.insert(key.clone());
        self.all.insert(
            key.clone(),
            Drift { key, times: 1, first: now, last: now, recording: recording.to_owned() },
        );
        bound_drift(&mut self.all, &backend);
        !known
    }

    /// Returns whether this component had this kind of output with this version of the agent.
    pub(super) fn has(&self, key: &DriftKey) -> bool {
        self.all.contains_key(key)
    }

    /// Returns the kinds of output that a component had with this version of the agent.
    pub(super) fn of<'a>(
        &'a self,
        backend: &'a str,
        agent_version: &'a str,
        component: &'a str,
    ) -> impl Iterator<Item = &'a Drift> {
        let wanted = move |key: &DriftKey| {
            key.backend == backend
                && key.agent_version == agent_version
                && key.component == component
        };
        self.all.values().filter(move |drift| wanted(&drift.key))
    }

    /// Returns whether there are unsaved counts.
    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns the unsaved counts, and marks them as saved.
    pub(super) fn take_changes(&mut self) -> Vec<Drift> {
        std::mem::take(&mut self.changed)
            .iter()
            .filter_map(|key| self.all.get(key).cloned())
            .collect()
    }

    /// Replaces the counts by those in the file, which people may have edited. Keeps counts that
    /// changed since they were saved.
    pub(super) fn merge_saved(&mut self, written: Vec<Drift>) {
        let mut all: BTreeMap<DriftKey, Drift> =
            written.into_iter().map(|drift| (drift.key.clone(), drift)).collect();
        for key in &self.changed {
            if let Some(newer) = self.all.remove(key) {
                all.insert(key.clone(), newer);
            }
        }
        self.all = all;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(backend: u8, version: u8, what: u8, component: u8) -> DriftKey {
        DriftKey {
            backend: format!("backend-{backend}"),
            agent_version: version.to_string(),
            what: format!("kind {what}"),
            component: component.to_string(),
        }
    }

    #[test]
    fn edits_of_the_file_are_merged_with_newer_counts() {
        let mut outputs = UnknownOutputs::default();
        assert!(outputs.count(key(0, 0, 0, 0), "a", Timestamp::UNIX_EPOCH));
        assert!(outputs.count(key(0, 0, 1, 0), "a", Timestamp::UNIX_EPOCH));
        let mut written = outputs.take_changes();
        assert!(!outputs.count(key(0, 0, 1, 0), "b", Timestamp::UNIX_EPOCH));
        // Somebody removed the first line.
        written.remove(0);
        outputs.merge_saved(written);
        assert_eq!(
            outputs
                .take_changes()
                .iter()
                .map(|drift| (drift.times, drift.recording.as_str()))
                .collect::<Vec<_>>(),
            [(2, "b")]
        );
        assert!(
            outputs.count(key(0, 0, 0, 0), "c", Timestamp::UNIX_EPOCH),
            "the kind is new again"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Compares with naive counting, with the file saved and loaded at any point.
        #[test]
        fn every_output_is_counted_and_each_kind_is_new_once(met in proptest::collection::vec((0..2u8, 0..2u8, 0..4u8, 0..2u8, any::<bool>()), 0..60)) {
            let (mut outputs, mut file) = (UnknownOutputs::default(), BTreeMap::new());
            let (mut seen, mut counts) = (BTreeSet::new(), BTreeMap::<DriftKey, u64>::new());
            for (backend, version, what, component, restart) in met {
                let key = key(backend, version, what, component);
                let first = outputs.count(key.clone(), "r", Timestamp::UNIX_EPOCH);
                prop_assert_eq!(first, seen.insert((backend, version, what)));
                *counts.entry(key.clone()).or_default() += 1;
                prop_assert!(outputs.has(&key));
                if restart {
                    file.extend(outputs.take_changes().into_iter().map(|drift| (drift.key.clone(), drift)));
                    prop_assert!(!outputs.has_changes());
                    outputs = UnknownOutputs::new(file.values().cloned().collect());
                }
            }
            prop_assert_eq!(outputs.all.into_iter().map(|(key, drift)| (key, drift.times)).collect::<BTreeMap<_, _>>(), counts);
        }

        #[test]
        fn the_number_of_kinds_is_bounded(count in 1..900u32) {
            let mut outputs = UnknownOutputs::default();
            for n in 0..count {
                let key = DriftKey { what: n.to_string(), ..key(0, 0, 0, 0) };
                prop_assert!(outputs.count(key, "r", Timestamp::from_second(n.into()).expect("a time")));
            }
            prop_assert!(outputs.all.len() <= 200);
            prop_assert!(outputs.take_changes().len() <= 200);
        }
    }
}
