//! Threads: each has a session of its own; the settings of its channel hold where it has none of
//! its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::choices::names;
use super::event::plain_answer;
use super::keeping::safe;
use super::stage::Stage;
use super::{Answer, Dispatcher, Inner};
use crate::event::{Event, Lane, Origin};
use crate::workspace::{LaneSettings, Saving};

/// Threads remembered; a forgotten one is learned again with its next message.
const REMEMBERED: usize = 10_000;

impl Dispatcher {
    /// Learns that a channel is a thread of another one.
    pub fn learn(&self, channel: u64, parent: u64) {
        self.inner.learn(channel, parent);
    }

    /// Whether a lane was used before, or the operator wrote about it.
    pub async fn knows(&self, lane: &Lane) -> bool {
        let workspace = &self.inner.parts.workspace;
        self.is_busy(lane)
            || workspace.channels().await.lanes().any(|(known, _)| known == lane)
            || workspace.bindings().knows(lane).await
    }

    /// Whether the operator lets the bot read everything in a channel, and in its threads:
    /// `require-mention: no`.
    pub async fn reads_all(&self, lane: &Lane) -> bool {
        let (_, settings) = self.inner.backend_of(lane).await;
        settings.require_mention == Some(false)
    }
}

impl Dispatcher {
    /// Has the thread opened that an accepted event asks for, and lets it wait there. Every step
    /// can be taken again: after a crash the next life does all of them.
    pub(super) fn open_thread(&self, event: Event, saving: Option<Saving>) {
        let this = self.clone();
        self.inner.tasks.spawn(async move {
            // One that could not be kept is taken back.
            if safe(saving).await {
                this.inner.open_thread(event).await;
                this.pump();
                this.inner.finished.notify_waiters();
            }
        });
    }
}

impl Inner {
    async fn open_thread(self: &Arc<Self>, event: Event) {
        let (sequence, kept) = (event.sequence, self.kept(&event));
        let opened = self.parts.outlet.open_thread(&event, kept.traces(&event)).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.queue.lock().cancel(sequence);
                let stage = Stage::new(kept.open(&*self.parts.outlet, &event));
                let answer = Answer {
                    failure: Some(why),
                    ..plain_answer(self.parts.choices.backend.clone())
                };
                kept.answered(&answer).await;
                return self.deliver(&event, &kept, &stage, answer).await;
            }
        };
        let parent = if let Origin::Interaction { channel, .. } = event.origin {
            Some(channel)
        } else {
            event.parent
        };
        if let Some(parent) = parent {
            self.learn(opened.thread, parent);
        }
        let event = Event {
            lane: Lane::Channel(opened.thread),
            origin: Origin::Message { channel: opened.thread, message: opened.first },
            parent,
            opens_thread: false,
            ..event
        };
        if let Some(journal) = &self.parts.journal {
            // The message in the channel is none of the answer's.
            journal.posted(sequence, &[]);
            if !journal.accepted(&self.to_keep(&event)).done().await {
                tracing::warn!(
                    event = sequence,
                    "cannot note the thread of an event; after a crash now it would be looked for again"
                );
            }
        }
        // Where the gateway ends, it is kept for the next life.
        self.queue.lock().release(event);
    }

    pub(super) fn learn(&self, channel: u64, parent: u64) {
        let mut parents = self.parents.lock();
        if parents.len() >= REMEMBERED {
            parents.clear();
        }
        parents.insert(channel, parent);
    }

    /// The lane of the channel that a lane's thread belongs to.
    pub(super) fn parent_of(&self, lane: &Lane) -> Option<Lane> {
        let Lane::Channel(channel) = lane else { return None };
        self.parents.lock().get(channel).map(|parent| Lane::Channel(*parent))
    }

    /// Who answers in a lane, and what the operator wrote about it.
    pub(super) async fn backend_of(&self, lane: &Lane) -> (String, LaneSettings) {
        let (name, settings, _) = self.answering(lane).await;
        (name, settings)
    }

    /// Who answers in a lane, what the operator wrote about it, and whom people chose who may not.
    /// What belongs to the thread goes before what belongs to its channel; of either, what people
    /// chose before what the operator wrote.
    pub(super) async fn answering(&self, lane: &Lane) -> (String, LaneSettings, Option<String>) {
        let (channels, bindings) =
            (self.parts.workspace.channels().await, self.parts.workspace.bindings());
        let own = channels.of(lane);
        let parent = self.parent_of(lane);
        let above = parent.as_ref().map(|parent| channels.of(parent));
        let settings = above.as_ref().map_or_else(|| own.clone(), |above| own.clone().or(above));
        let (mut name, mut refused) = (None, None);
        for (lane, written) in
            std::iter::once((lane, &own)).chain(parent.as_ref().zip(above.as_ref()))
        {
            if let Some(chosen) = bindings.active_backend(lane).await {
                if self.may_choose(lane, &settings, &chosen) {
                    name = Some(chosen);
                } else {
                    refused.get_or_insert(chosen);
                }
            }
            name = name.or_else(|| written.backend.clone());
            if name.is_some() {
                break;
            }
        }
        (name.unwrap_or_else(|| self.parts.choices.backend.clone()), settings, refused)
    }

    /// What people chose for a lane and backend.
    pub(super) async fn chosen(&self, lane: &Lane, backend: &str) -> BTreeMap<String, String> {
        let bindings = self.parts.workspace.bindings();
        let mut own = bindings.get(lane, backend).await.settings;
        if let Some(parent) = self.parent_of(lane) {
            let mut above = bindings.get(&parent, backend).await.settings;
            for name in names::ALL {
                if let (false, Some(value)) = (own.contains_key(name), above.remove(name)) {
                    own.insert(name.to_owned(), value);
                }
            }
        }
        own
    }
}
