//! Opening the thread of an event before its turn.

use std::sync::Arc;

use tokio::sync::watch;

use super::Shared;
use super::channel::options::Setting;
use super::outlet::TurnAnswer;
use super::outlet::handle::ReplyHandle;
use super::persistence::wait_until_saved;
use aetheel_model::event::{Event, EventOrigin, Lane, NewEvent, PromptChoice};
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::{BindingsError, JournalMark, PendingSave};

/// Opens the thread of an accepted event, and lets the event wait in the thread's lane. Every step
/// can be repeated: after a crash, the next process repeats all of them.
pub(crate) fn open(shared: &Arc<Shared>, event: Event, saving: Option<PendingSave>) {
    let shared = Arc::clone(shared);
    shared.clone().tasks.spawn(async move {
        // An event that could not be saved is discarded.
        if wait_until_saved(saving).await {
            open_and_release(&shared, event).await;
            shared.start_waiting();
            shared.lanes.notify_finished();
        }
    });
}

/// Saves the agent and the model that a person chose for a thread.
async fn bind(shared: &Shared, lane: &Lane, choice: &PromptChoice) -> Result<(), BindingsError> {
    let bindings = &shared.deps.workspace.state.bindings;
    if let Some(backend) = &choice.backend {
        bindings.set_backend(lane, backend).await?;
    }
    if let Some(model) = &choice.model {
        let (backend, _) = shared.channels.backend_of(lane).await;
        bindings.set_setting(lane, &backend, Setting::Model.name(), Some(model.clone())).await?;
    }
    Ok(())
}

async fn open_and_release(shared: &Shared, event: Event) {
    let (sequence, kept) = (event.sequence, shared.durability.progress_of(&event));
    let opened = shared.deps.outlet.open_thread(&event, kept.prior_delivery(&event)).await;
    let opened = match opened {
        Ok(opened) => opened,
        Err(why) => {
            shared.lanes.queue.lock().cancel(sequence);
            let reply = ReplyHandle::new(kept.open_reply(&*shared.deps.outlet, &event));
            let answer = TurnAnswer::failed(shared.deps.choices.backend.clone(), why);
            // No turn runs yet, so the signal never fires.
            let (_, stop) = watch::channel(None);
            kept.record_answer(&answer, &stop).await;
            return shared.delivery.deliver(&event, &kept, &reply, answer).await;
        }
    };
    let parent = if let EventOrigin::Interaction { channel, .. } = event.origin {
        Some(channel)
    } else {
        event.parent
    };
    if let Some(parent) = parent {
        shared.channels.parents.learn(opened.thread, parent);
    }
    let lane = Lane::Channel(opened.thread);
    if let Some(choice) = &event.choice
        && let Err(error) = bind(shared, &lane, choice).await
    {
        tracing::error!(%lane, error = %with_causes(&error), "cannot save the choice for a thread; it applies to the first prompt only");
    }
    let origin = EventOrigin::Message { channel: opened.thread, message: opened.first };
    let request = NewEvent { lane, origin, parent, opens_thread: false, ..event.request };
    let event = Event { request, ..event };
    if let Some(journal) = &shared.deps.journal {
        // The saved messages are cleared: the message in the channel does not belong to the
        // answer.
        drop(journal.mark(sequence, JournalMark::Posted(Vec::new())));
        if !wait_until_saved(shared.durability.save_event(&event)).await {
            tracing::warn!(
                event = sequence,
                "cannot record the thread of an event; after a crash now it would be looked for again"
            );
        }
    }
    // If the gateway is ending, this has no effect, and the journal has the event.
    shared.lanes.queue.lock().release(event);
}
