//! Replays that check whether a changed recording still shows the fault, with a limit.

use std::time::Instant;

use super::ReportLimits;
use super::fault::{Fault, FaultKind, FaultSearch};
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{Backend, RecordingEntry};

pub(super) struct FaultTrials<'a> {
    backend: &'a dyn Backend,
    kind: FaultKind,
    place: String,
    expected: Option<String>,
    limits: ReportLimits,
    began: Instant,
    pub(super) replays: usize,
}

impl<'a> FaultTrials<'a> {
    pub(super) fn new(
        backend: &'a dyn Backend,
        fault: &Fault,
        expected: Option<&str>,
        limits: ReportLimits,
    ) -> Self {
        let (kind, place) = (fault.kind, fault.place.clone());
        let expected = expected.map(str::to_owned);
        Self { backend, kind, place, expected, limits, began: Instant::now(), replays: 0 }
    }

    /// Returns whether no further replay is allowed.
    pub(super) fn is_exhausted(&self) -> bool {
        self.replays >= self.limits.replays || self.began.elapsed() >= self.limits.time
    }

    pub(super) fn raise(&mut self, limits: ReportLimits) {
        self.limits = limits;
    }

    /// Searches for another text from now on.
    pub(super) fn expect(&mut self, expected: Option<String>) {
        self.expected = expected;
    }

    /// Returns the fault if these entries still show it. Returns `None` without a replay if the
    /// limit is reached.
    pub(super) async fn fault(&mut self, entries: &[RecordingEntry]) -> Option<Fault> {
        if self.is_exhausted() {
            return None;
        }
        self.replays += 1;
        self.fault_now(entries).await
    }

    /// Like [`FaultTrials::fault`], but without a limit.
    pub(super) async fn fault_now(&self, entries: &[RecordingEntry]) -> Option<Fault> {
        let replayed = replay(self.backend, entries, Batches::Single).await.ok()?;
        let descriptor = self.backend.descriptor();
        let search = FaultSearch { descriptor, expected: self.expected.as_deref() };
        let mut faults = search.of_kind(self.kind, entries, &replayed).into_iter();
        faults.find(|fault| fault.is_same(self.kind, &self.place))
    }

    /// Returns whether these entries still show the fault.
    pub(super) async fn show(&mut self, entries: &[RecordingEntry]) -> bool {
        self.fault(entries).await.is_some()
    }
}
