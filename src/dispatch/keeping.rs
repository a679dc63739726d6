//! Keeping accepted events safe: nothing begins before it is on disk, and how far each came is
//! noted as it goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::reply::{Answer, Outlet, Reply, Traces};
use super::stage::Stage;
use super::{Dispatcher, Inner, Refusal};
use crate::event::{Event, NewEvent};
use crate::workspace::{Entry, Journal, Saving};

/// How far an event came, and where that is noted. Of an event that is not kept, nothing.
#[derive(Clone)]
pub(super) struct Kept {
    /// The journal and what it said when the turn began.
    noted: Option<(Journal, Arc<Entry>)>,
    tool: Arc<AtomicBool>,
    /// What it came to was known when it was accepted, in this life.
    known: Option<Arc<Answer>>,
}

impl Kept {
    /// Opens the reply, on what earlier lives left of it.
    pub(super) fn open(&self, outlet: &dyn Outlet, event: &Event) -> Box<dyn Reply> {
        if self.noted.is_some() {
            outlet.open_kept(event, self.traces(event))
        } else {
            outlet.open(event)
        }
    }

    /// What earlier lives left of the reply.
    pub(super) fn traces(&self, event: &Event) -> Traces {
        let Some((journal, entry)) = &self.noted else { return Traces::unkept() };
        let (journal, sequence) = (journal.clone(), event.sequence);
        Traces {
            stem: stem(event, entry.again),
            posted: entry.posted.clone(),
            resumed: entry.started > 0 || (entry.answer.is_some() && self.known.is_none()),
            note: Arc::new(move |ids| journal.posted(sequence, ids)),
        }
    }

    /// What an earlier life came to and may not have delivered, or what was known from the
    /// beginning.
    pub(super) fn answer(&self) -> Option<Answer> {
        if let Some(known) = &self.known {
            return Some((**known).clone());
        }
        let (_, entry) = self.noted.as_ref()?;
        let read = serde_json::from_str(entry.answer.as_ref()?);
        read.map_err(|error| tracing::warn!(%error, "the kept answer cannot be read; asking the agent again")).ok()
    }

    /// Whether it may have been begun before.
    pub(super) fn began_before(&self) -> bool {
        self.noted.as_ref().is_some_and(|(_, entry)| entry.started > 0 || entry.again > 0)
    }

    /// Whether its answer may be tried once more after the next start.
    pub(super) fn has_another_try(&self) -> bool {
        self.noted.is_some() && (self.known.is_some() || self.answer().is_none())
    }

    /// The turn begins.
    pub(super) fn started(&self) {
        if let Some((journal, entry)) = &self.noted {
            journal.started(entry.event.sequence);
        }
    }

    /// The agent used a tool: from now on the turn is not simply repeated.
    /// Returns the saving of that, for its first tool.
    pub(super) fn used_tool(&self) -> Option<Saving> {
        let (journal, entry) = self.noted.as_ref()?;
        let first = !self.tool.swap(true, Ordering::Relaxed);
        first.then(|| journal.used_tool(entry.event.sequence))
    }

    /// The turn was stopped because the gateway ends: what the next start does with it, as after a
    /// crash. None: nothing.
    pub(super) fn wait_for_next_life(&self) -> Option<Next> {
        let (journal, entry) =
            self.noted.as_ref().filter(|(_, entry)| !entry.event.of_one_life())?;
        if self.tool.load(Ordering::Relaxed) {
            return Some(Next::Asked);
        }
        journal.waits(entry.event.sequence);
        Some(Next::Again)
    }

    /// Keeps what the turn came to; returns when it is on disk.
    pub(super) async fn answered(&self, answer: &Answer) {
        let Some((journal, entry)) = &self.noted else { return };
        let json = serde_json::to_string(answer).expect("an answer is plain data");
        if !journal.answered(entry.event.sequence, json).done().await {
            tracing::warn!(
                "the answer could not be saved before it is delivered; after a crash now the agent would be asked again"
            );
        }
    }
}

/// What the next start does with a turn that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is done again, whole.
    Again,
    /// It had used a tool: people are asked.
    Asked,
}

/// What makes the messages of an attempt at an event findable: its time and number, and which
/// attempt it is.
pub(super) fn stem(event: &Event, again: u32) -> String {
    let time = u64::try_from(event.accepted_ms).unwrap_or(0);
    format!("{}{}.{again}", base36(time), base36(event.sequence))
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((number % 36) as u32, 36).expect("a digit below 36"));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Waits until an event is on disk; false when it cannot be. What is not kept needs no waiting.
pub(super) async fn safe(saving: Option<Saving>) -> bool {
    match saving {
        Some(saving) => saving.done().await,
        None => true,
    }
}

impl Dispatcher {
    /// Waits for an event to be on disk, and takes it back when it cannot be.
    pub(super) fn watch_saving(&self, event: Event, saving: Saving) {
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            let saved = saving.done().await;
            // One that was handed out already is told by its own task, which has to find what
            // became of its saving.
            let taken_back = !saved && inner.queue.lock().cancel(event.sequence).is_some();
            if saved || taken_back {
                inner.savings.lock().remove(&event.sequence);
            }
            if taken_back {
                inner.not_saved(&event);
                inner.finished.notify_waiters();
            }
        });
    }
}

impl Inner {
    /// Takes an event into the queue and the journal, in the same order. Returns how many come
    /// before it in its lane.
    pub(super) fn accept(
        &self,
        event: NewEvent,
    ) -> Result<(Event, usize, Option<Saving>), Refusal> {
        let journal = self.parts.journal.as_ref();
        let mut queue = self.queue.lock();
        // Again, now that nobody else can come between.
        if self.knows(&event) {
            return Err(Refusal::Known);
        }
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let event = if event.opens_thread {
            queue.hold(event, now_ms)?
        } else {
            queue.accept(event, now_ms)?
        };
        let ahead = queue.position(event.sequence).unwrap_or(0);
        let saving = journal.map(|journal| journal.accepted(&self.to_keep(&event)));
        if let Some(saving) = &saving {
            self.savings.lock().insert(event.sequence, saving.clone());
        }
        Ok((event, ahead, saving))
    }

    /// An event as it is kept: a secret that somebody wrote into it is not, so that after a crash
    /// the agent would not get it.
    pub(super) fn to_keep(&self, event: &Event) -> Event {
        Event { prompt: self.parts.redactor.clean(event.prompt.clone()), ..event.clone() }
    }

    /// Whether the same thing was taken before.
    pub(super) fn knows(&self, event: &NewEvent) -> bool {
        self.parts
            .journal
            .as_ref()
            .zip(event.key.as_ref())
            .is_some_and(|(journal, key)| journal.knows(key))
    }

    /// What is noted about an event whose turn begins.
    pub(super) fn kept(&self, event: &Event) -> Kept {
        let noted =
            self.parts.journal.as_ref().and_then(|journal| {
                Some((journal.clone(), Arc::new(journal.entry(event.sequence)?)))
            });
        Kept { noted, tool: Arc::default(), known: self.salvage.answer(event.sequence) }
    }

    /// Forgets an event that could not be kept. Whoever submitted it learns that from its saving,
    /// and tells people or tries again.
    pub(super) fn not_saved(&self, event: &Event) {
        tracing::error!(event = event.sequence, lane = %event.lane, "event taken back: it could not be written to state/queue.md");
        if let Some(journal) = &self.parts.journal {
            journal.forget(event.sequence);
        }
        self.savings.lock().remove(&event.sequence);
    }

    /// The event is over, whatever became of it.
    pub(super) fn check_off(&self, event: &Event) -> Option<Saving> {
        let journal = self.parts.journal.as_ref()?;
        Some(journal.finished(event, jiff::Timestamp::now().as_millisecond()))
    }

    /// Says that the turn goes on with the next life of the gateway.
    pub(super) async fn put_off(&self, stage: &Stage, answer: Answer, id: &str, next: Next) {
        let Some(reply) = stage.take() else { return };
        let what = match next {
            Next::Again => {
                tracing::info!("the turn was stopped and begins again with the next start");
                "I am restarting; this is answered as soon as I am back."
            }
            Next::Asked => {
                tracing::info!(
                    "the turn was stopped after its agent had used a tool; people are asked with the next start"
                );
                "I am restarting and had to stop here, after a tool was used. As soon as I am back I ask whether to try again."
            }
        };
        let failure = Some(format!("{what} (restarting, {id})"));
        self.tell(reply, Answer { failure, ..answer }, "that the turn begins again").await;
    }
}
