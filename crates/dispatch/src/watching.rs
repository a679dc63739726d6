//! Lanes and turns for whoever watches them: that something changed, and what people may see of a
//! turn while it grows. While nobody watches, nobody is told, and nothing is made for anybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use aetheel_model::agent::EventKind;
use aetheel_model::fold::Transcript;

/// Tells whoever watches that something changed; what, they look up. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stir(Arc<watch::Sender<u64>>);

impl Stir {
    /// Something changed.
    pub(crate) fn tell(&self) {
        if self.0.receiver_count() > 0 {
            self.0.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }

    /// Begins to watch.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// A turn as people may see it, without secrets, while it grows.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    shown: Mutex<Transcript>,
    /// How many events it took in.
    version: AtomicU64,
    grown: Stir,
}

impl LiveTurn {
    /// Makes one that nothing happened in; whoever watches turns is told of what will.
    pub(crate) fn new(grown: Stir) -> Self {
        Self { shown: Mutex::default(), version: AtomicU64::new(0), grown }
    }

    /// Takes one event in, and hands the turn so far on.
    pub(crate) fn apply(&self, event: &EventKind, hand_on: impl FnOnce(&Transcript)) {
        {
            let mut shown = self.shown.lock();
            shown.apply(event);
            self.version.fetch_add(1, Ordering::Release);
            hand_on(&shown);
        }
        self.grown.tell();
    }
}

/// A turn that somebody watches.
#[derive(Clone, Debug)]
pub struct TurnWatch(pub(crate) Arc<LiveTurn>);

impl TurnWatch {
    /// Another one each time the turn has grown.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Looks at the turn as people may see it now. The turn waits meanwhile: be quick.
    pub fn look<T>(&self, at: impl FnOnce(&Transcript) -> T) -> T {
        at(&self.0.shown.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::Text;

    fn text(words: &str) -> EventKind {
        EventKind::Text(Text { part: 0, text: words.to_owned(), replace: false, parent: None })
    }

    #[test]
    fn whoever_begins_to_watch_sees_the_turn_so_far_and_that_it_grows() {
        let grown = Stir::default();
        let live = Arc::new(LiveTurn::new(grown.clone()));
        live.apply(&text("one "), |_| {});
        let (told, watch) = (grown.watch(), TurnWatch(Arc::clone(&live)));
        let version = watch.version();
        assert_eq!(watch.look(Transcript::text), "one ");
        assert!(!told.has_changed().expect("it lives"));
        live.apply(&text("two"), |shown| assert_eq!(shown.text(), "one two"));
        assert!(told.has_changed().expect("it lives"));
        assert_ne!(watch.version(), version);
        assert_eq!(watch.look(Transcript::text), "one two");
    }
}
