//! Opening the thread of an event before its turn.

use tokio::sync::watch;

use crate::durability::safe;
use crate::outlet::Answer;
use crate::outlet::handle::ReplyHandle;
use crate::{Dispatcher, Inner};
use aetheel_model::event::{Event, Lane, Origin};
use aetheel_store::workspace::Saving;

impl Dispatcher {
    /// Opens the thread of an accepted event, and lets the event wait in the thread's lane. Every
    /// step can be repeated: after a crash, the next process repeats all of them.
    pub(crate) fn open_thread(&self, event: Event, saving: Option<Saving>) {
        let this = self.clone();
        self.inner.tasks.spawn(async move {
            // An event that could not be saved is discarded.
            if safe(saving).await {
                this.inner.open_thread(event).await;
                this.pump();
                this.inner.lanes.tell_finished();
            }
        });
    }
}

impl Inner {
    async fn open_thread(&self, event: Event) {
        let (sequence, kept) = (event.sequence, self.durability.kept(&event));
        let opened = self.parts.outlet.open_thread(&event, kept.prior_delivery(&event)).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.lanes.queue.lock().cancel(sequence);
                let reply = ReplyHandle::new(kept.open(&*self.parts.outlet, &event));
                let answer = Answer::failed(self.parts.choices.backend.clone(), why);
                // There is no turn that could be stopped.
                let (_, stop) = watch::channel(None);
                kept.answered(&answer, &stop).await;
                return self.delivery.deliver(&event, &kept, &reply, answer).await;
            }
        };
        let parent = if let Origin::Interaction { channel, .. } = event.origin {
            Some(channel)
        } else {
            event.parent
        };
        if let Some(parent) = parent {
            self.channels.learn(opened.thread, parent);
        }
        let event = Event {
            lane: Lane::Channel(opened.thread),
            origin: Origin::Message { channel: opened.thread, message: opened.first },
            parent,
            opens_thread: false,
            ..event
        };
        if let Some(journal) = &self.parts.journal {
            // The message in the channel does not belong to the answer.
            journal.posted(sequence, &[]);
            if !safe(self.durability.keep(&event)).await {
                tracing::warn!(
                    event = sequence,
                    "cannot record the thread of an event; after a crash now it would be looked for again"
                );
            }
        }
        // If the gateway ends, the journal has the event.
        self.lanes.queue.lock().release(event);
    }
}
