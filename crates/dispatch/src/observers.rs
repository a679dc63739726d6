//! Observers of lanes and turns: change notifications, and the visible part of a running turn.
//!
//! Without observers, no notification is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use aetheel_model::agent::AgentEventKind;
use aetheel_model::fold::Transcript;

/// Notifies observers that something changed. The notification does not contain the change. Cheap
/// to clone; clones share the observers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeSignal(Arc<watch::Sender<u64>>);

impl ChangeSignal {
    /// Notifies all observers.
    pub(crate) fn notify(&self) {
        if self.0.receiver_count() > 0 {
            self.0.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }

    /// Adds an observer.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The visible, redacted part of a turn while it runs.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    shown: Mutex<Transcript>,
    /// The number of events applied so far.
    version: AtomicU64,
    changes: ChangeSignal,
}

impl LiveTurn {
    /// Creates an empty turn. `changes` is notified of each change.
    pub(crate) fn new(changes: ChangeSignal) -> Self {
        Self { shown: Mutex::default(), version: AtomicU64::new(0), changes }
    }

    /// Applies an event, then calls `hand_on` with the transcript so far.
    pub(crate) fn apply(&self, event: &AgentEventKind, hand_on: impl FnOnce(&Transcript)) {
        {
            let mut shown = self.shown.lock();
            shown.apply(event);
            self.version.fetch_add(1, Ordering::Release);
            hand_on(&shown);
        }
        self.changes.notify();
    }
}

/// Read access to a running turn, for an observer.
#[derive(Clone, Debug)]
pub struct TurnWatch(pub(crate) Arc<LiveTurn>);

impl TurnWatch {
    /// Returns a number that changes each time the turn grows.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Calls `at` with the transcript as people may see it now. The turn waits for `at`, so it must
    /// be quick.
    pub fn read<T>(&self, at: impl FnOnce(&Transcript) -> T) -> T {
        at(&self.0.shown.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::TextEvent;

    fn text(words: &str) -> AgentEventKind {
        AgentEventKind::Text(TextEvent {
            part: 0,
            text: words.to_owned(),
            replace: false,
            parent: None,
        })
    }

    #[test]
    fn an_observer_sees_the_turn_so_far_and_is_notified_of_growth() {
        let grown = ChangeSignal::default();
        let live = Arc::new(LiveTurn::new(grown.clone()));
        live.apply(&text("one "), |_| {});
        let (told, watch) = (grown.subscribe(), TurnWatch(Arc::clone(&live)));
        let version = watch.version();
        assert_eq!(watch.read(Transcript::text), "one ");
        assert!(!told.has_changed().expect("the sender exists"));
        live.apply(&text("two"), |shown| assert_eq!(shown.text(), "one two"));
        assert!(told.has_changed().expect("the sender exists"));
        assert_ne!(watch.version(), version);
        assert_eq!(watch.read(Transcript::text), "one two");
    }
}
