//! Signs of life: events without a prompt, which take the way of all events, so that a bot that
//! hears nobody notices.

use tokio::sync::oneshot;

use super::{Dispatcher, Inner};
use crate::event::{Event, EventKind, Lane, NewEvent, Origin};

/// One on its way. Dropped before it came through, it is lost.
#[derive(Debug)]
pub struct Pulse(oneshot::Sender<()>);

impl Pulse {
    /// Makes one, and what tells that it came through.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// It has come through.
    pub fn through(self) {
        // Whoever sent it may have given it up.
        let _ = self.0.send(());
    }
}

impl Dispatcher {
    /// Sends a pulse through queue, journal and outlet. It costs no agent, and nothing of it is
    /// kept. While turns hold all slots it passes the queue by: that it waits for them would say
    /// nothing.
    pub fn pulse(&self, pulse: Pulse) {
        let mut queue = self.inner.queue.lock();
        if queue.is_closed() || !queue.has_room() {
            drop(queue);
            let inner = self.inner.clone();
            self.inner.tasks.spawn(async move { inner.come_through(pulse).await });
            return;
        }
        let event = NewEvent::new(
            EventKind::Hook,
            Lane::Hook("pulse".to_owned()),
            Origin::Internal { channel: None },
            "",
        );
        let event = queue.admit_aside(event, jiff::Timestamp::now().as_millisecond());
        self.inner.pulses.lock().insert(event.sequence, pulse);
        drop(queue);
        self.pump();
    }
}

impl Inner {
    /// The pulse that an event is.
    pub(super) fn pulse_of(&self, event: &Event) -> Option<Pulse> {
        self.pulses.lock().remove(&event.sequence)
    }

    /// The rest of the way: what everything accepted is kept by, and what every answer goes out by.
    pub(super) async fn come_through(&self, pulse: Pulse) {
        if let Some(journal) = &self.parts.journal {
            // A disk that takes nothing is told of elsewhere; here only an answer counts.
            let _ = journal.flush().await;
        }
        self.parts.outlet.pulse().await;
        pulse.through();
    }
}
