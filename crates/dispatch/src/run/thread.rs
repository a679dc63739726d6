//! Opening the thread of an event before its turn.

use tokio::sync::watch;

use crate::outlet::TurnAnswer;
use crate::outlet::handle::ReplyHandle;
use crate::persistence::wait_until_saved;
use crate::{Dispatcher, DispatcherInner};
use aetheel_model::event::{Event, EventOrigin, Lane};
use aetheel_store::workspace::PendingSave;

impl Dispatcher {
    /// Opens the thread of an accepted event, and lets the event wait in the thread's lane. Every
    /// step can be repeated: after a crash, the next process repeats all of them.
    pub(crate) fn open_thread(&self, event: Event, saving: Option<PendingSave>) {
        let this = self.clone();
        self.inner.tasks.spawn(async move {
            // An event that could not be saved is discarded.
            if wait_until_saved(saving).await {
                this.inner.open_thread(event).await;
                this.pump();
                this.inner.lanes.notify_finished();
            }
        });
    }
}

impl DispatcherInner {
    async fn open_thread(&self, event: Event) {
        let (sequence, kept) = (event.sequence, self.durability.progress_of(&event));
        let opened = self.deps.outlet.open_thread(&event, kept.prior_delivery(&event)).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.lanes.queue.lock().cancel(sequence);
                let reply = ReplyHandle::new(kept.open_reply(&*self.deps.outlet, &event));
                let answer = TurnAnswer::failed(self.deps.choices.backend.clone(), why);
                // No turn runs yet, so the signal never fires.
                let (_, stop) = watch::channel(None);
                kept.record_answer(&answer, &stop).await;
                return self.delivery.deliver(&event, &kept, &reply, answer).await;
            }
        };
        let parent = if let EventOrigin::Interaction { channel, .. } = event.origin {
            Some(channel)
        } else {
            event.parent
        };
        if let Some(parent) = parent {
            self.channels.learn_parent(opened.thread, parent);
        }
        let event = Event {
            lane: Lane::Channel(opened.thread),
            origin: EventOrigin::Message { channel: opened.thread, message: opened.first },
            parent,
            opens_thread: false,
            ..event
        };
        if let Some(journal) = &self.deps.journal {
            // The saved messages are cleared: the message in the channel does not belong to the
            // answer.
            journal.posted(sequence, &[]);
            if !wait_until_saved(self.durability.save_event(&event)).await {
                tracing::warn!(
                    event = sequence,
                    "cannot record the thread of an event; after a crash now it would be looked for again"
                );
            }
        }
        // If the gateway is ending, this has no effect, and the journal has the event.
        self.lanes.queue.lock().release(event);
    }
}
