//! Keeping accepted events over the death of the program: nothing begins before it is on disk, and
//! how far each came is noted as it goes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::outlet::{Answer, Outlet, PriorDelivery, Reply};
use super::parts::Parts;
use aetheel_model::event::{BLOCK_BITS, Event, NewEvent, Sequence};
use aetheel_store::workspace::{Entry, Journal, Saving};
use aetheel_turn::{StopReason, TurnPlace};

/// Between two looks whether an answer can be saved.
const AGAIN_INTERVAL: Duration = Duration::from_millis(250);

/// Receives the reason to stop a turn.
type StopSignal = watch::Receiver<Option<StopReason>>;

/// How far an event came, and where that is noted; empty for an event that is not kept.
#[derive(Clone)]
pub(crate) struct Kept {
    /// The journal, and its entry when the turn began.
    noted: Option<(Journal, Arc<Entry>)>,
    tool: Arc<AtomicBool>,
    /// Its answer, if that was known when it was accepted, in this life.
    known: Option<Arc<Answer>>,
    /// The turn's place on its link, until its answer is kept: before that a later life goes on
    /// with the turn, from then on with the answer.
    place: Arc<Mutex<TurnPlace>>,
}

impl Kept {
    /// Opens the reply, on what earlier lives left of it.
    pub(crate) fn open(&self, outlet: &dyn Outlet, event: &Event) -> Box<dyn Reply> {
        if self.noted.is_some() {
            outlet.open_kept(event, self.prior_delivery(event))
        } else {
            outlet.open(event)
        }
    }

    /// The messages that earlier lives posted of the reply.
    pub(crate) fn prior_delivery(&self, event: &Event) -> PriorDelivery {
        let Some((journal, entry)) = &self.noted else { return PriorDelivery::unkept() };
        let (journal, sequence) = (journal.clone(), event.sequence);
        PriorDelivery {
            stem: stem(event, entry.again),
            posted: entry.posted.clone(),
            resumed: entry.started > 0 || (entry.answer.is_some() && self.known.is_none()),
            note: Arc::new(move |ids| journal.posted(sequence, ids)),
        }
    }

    /// The answer that an earlier life came to and may not have delivered, or that was known from
    /// the beginning.
    pub(crate) fn answer(&self) -> Option<Answer> {
        if let Some(known) = &self.known {
            return Some((**known).clone());
        }
        let (_, entry) = self.noted.as_ref()?;
        let read = serde_json::from_str(entry.answer.as_ref()?);
        read.map_err(|error| tracing::warn!(%error, "the kept answer cannot be read; asking the agent again")).ok()
    }

    /// Whether it may have been begun before.
    pub(crate) fn began_before(&self) -> bool {
        self.noted.as_ref().is_some_and(|(_, entry)| entry.started > 0 || entry.again > 0)
    }

    /// Whether its answer may be tried once more after the next start.
    pub(crate) fn has_another_try(&self) -> bool {
        self.noted.is_some() && (self.known.is_some() || self.answer().is_none())
    }

    /// Keeps the turn's place on its link until [`Kept::let_go`].
    pub(crate) fn hold(&self, place: TurnPlace) {
        *self.place.lock() = place;
    }

    /// The answer is kept, or the turn is left to the next life.
    pub(crate) fn let_go(&self) {
        drop(std::mem::take(&mut *self.place.lock()));
    }

    /// Notes in the journal that the turn of the event begins. Returns once that is on disk, or the
    /// turn is stopped: a turn that begins without the note would begin a second time after a crash.
    pub(crate) async fn started(&self, stop: &StopSignal) {
        if let Some((journal, entry)) = &self.noted {
            if journal.started(entry.event.sequence).done().await {
                return;
            }
            let mut stop = stop.clone();
            tokio::select! {
                () = pause(journal, entry) => {}
                Ok(_) = stop.wait_for(Option::is_some) => {}
            }
        }
    }

    /// The agent used a tool: from now on the turn is not simply repeated.
    /// Returns the saving of that, for its first tool.
    pub(crate) fn used_tool(&self) -> Option<Saving> {
        let (journal, entry) = self.noted.as_ref()?;
        let first = !self.tool.swap(true, Ordering::Relaxed);
        first.then(|| journal.used_tool(entry.event.sequence))
    }

    /// Leaves a turn that was stopped because the gateway ends to the next start; returns what that
    /// does with it, as after a crash. None: nothing.
    pub(crate) fn wait_for_next_life(&self) -> Option<Next> {
        let (journal, entry) =
            self.noted.as_ref().filter(|(_, entry)| !entry.event.of_one_life())?;
        if self.tool.load(Ordering::Relaxed) {
            return Some(Next::Asked);
        }
        journal.waits(entry.event.sequence);
        Some(Next::Again)
    }

    /// Saves the answer of the turn. Returns true once it is on disk: an answer that is delivered but
    /// not saved would be asked for and delivered again after a crash, or by another node. Returns
    /// false if the gateway ends before; the answer must not be delivered then.
    pub(crate) async fn answered(&self, answer: &Answer, stop: &StopSignal) -> bool {
        let Some((journal, entry)) = &self.noted else { return true };
        if journal.answered(entry.event.sequence, answer.to_json()).done().await {
            return true;
        }
        let mut stop = stop.clone();
        tokio::select! {
            () = pause(journal, entry) => true,
            Ok(_) = stop.wait_for(|stop| *stop == Some(StopReason::Shutdown)) => {
                tracing::error!("the answer could not be saved before the gateway ends; people are asked after the next start");
                false
            }
        }
    }

    /// Waits until a note about the turn is on disk, however long the disk is full. A cluster node
    /// that cannot save for long loses its place and ends.
    pub(crate) async fn until_saved(&self, saving: Saving) {
        if !saving.done().await
            && let Some((journal, entry)) = &self.noted
        {
            pause(journal, entry).await;
        }
    }
}

/// Waits until the journal can be written again, and all its lines are on disk.
async fn pause(journal: &Journal, entry: &Entry) {
    tracing::error!(
        event = entry.event.sequence,
        lane = %entry.event.lane,
        "the turn is paused: the queue cannot be written; hint: make room for CONFIG_DIR/state/queue.md, and the turn goes on by itself"
    );
    while !journal.flush().await {
        tokio::time::sleep(AGAIN_INTERVAL).await;
    }
    tracing::info!(
        event = entry.event.sequence,
        "the turn goes on: the queue can be written again"
    );
}

/// The treatment of a stopped turn by the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is done again, whole.
    Again,
    /// It had used a tool: people are asked.
    Asked,
}

/// A name by which the messages of an attempt at an event are found: its time and number, and which
/// attempt it is.
pub(crate) fn stem(event: &Event, again: u32) -> String {
    let time = u64::try_from(event.accepted_ms).unwrap_or(0);
    if event.sequence >> BLOCK_BITS > 0 {
        // Of several machines no two give the same number, so less of the time is enough.
        let (time, number) = (base36(time % 36_u64.pow(4)), base36(event.sequence));
        return format!("{time:0>4}{number}.{again}");
    }
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

/// Waits until an event is on disk; false when it cannot be. An event that is not kept needs no
/// waiting.
pub(crate) async fn safe(saving: Option<Saving>) -> bool {
    match saving {
        Some(saving) => saving.done().await,
        None => true,
    }
}

/// Keeps events. Without a journal nothing is kept, and everything counts as safe.
pub(crate) struct Durability {
    parts: Arc<Parts>,
    /// The savings of events that are not known to be on disk yet.
    savings: Mutex<HashMap<Sequence, Saving>>,
    /// Answers that were known when their event was accepted.
    answers: Mutex<HashMap<Sequence, Arc<Answer>>>,
}

impl Durability {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        Self { parts, savings: Mutex::default(), answers: Mutex::default() }
    }

    /// Whether nothing can be kept at this moment.
    pub(crate) fn is_failing(&self) -> bool {
        self.parts.journal.as_ref().is_some_and(Journal::is_failing)
    }

    /// Keeps an event, or its newer form.
    pub(crate) fn keep(&self, event: &Event) -> Option<Saving> {
        let journal = self.parts.journal.as_ref()?;
        Some(journal.accepted(&self.to_keep(event)))
    }

    /// Keeps an event that was accepted now; its turn waits for that.
    pub(crate) fn keep_accepted(&self, event: &Event) -> Option<Saving> {
        let saving = self.keep(event)?;
        self.savings.lock().insert(event.sequence, saving.clone());
        Some(saving)
    }

    /// Keeps an event with the answer that it is to deliver.
    pub(crate) fn keep_answered(&self, event: &Event, answer: Answer) -> Option<Saving> {
        let json = answer.to_json();
        self.answers.lock().insert(event.sequence, Arc::new(answer));
        let journal = self.parts.journal.as_ref()?;
        let saving = journal.accepted_answered(&self.to_keep(event), json);
        self.savings.lock().insert(event.sequence, saving.clone());
        Some(saving)
    }

    /// An event as it is kept: without the secrets that somebody wrote into it, so that after a
    /// crash the agent would not get them.
    pub(crate) fn to_keep(&self, event: &Event) -> Event {
        Event { prompt: self.parts.redactor.clean(event.prompt.clone()), ..event.clone() }
    }

    /// The saving of an event, unless it is known to be on disk.
    pub(crate) fn saving_of(&self, event: Sequence) -> Option<Saving> {
        self.savings.lock().get(&event).cloned()
    }

    /// An event is on disk.
    pub(crate) fn saved(&self, event: Sequence) {
        self.savings.lock().remove(&event);
    }

    /// Whether an event with the same key was taken before.
    pub(crate) fn knows(&self, event: &NewEvent) -> bool {
        self.parts
            .journal
            .as_ref()
            .zip(event.key.as_ref())
            .is_some_and(|(journal, key)| journal.knows(key))
    }

    /// The notes about an event whose turn begins.
    pub(crate) fn kept(&self, event: &Event) -> Kept {
        let noted =
            self.parts.journal.as_ref().and_then(|journal| {
                Some((journal.clone(), Arc::new(journal.entry(event.sequence)?)))
            });
        let known = self.answers.lock().remove(&event.sequence);
        Kept { noted, tool: Arc::default(), known, place: Arc::default() }
    }

    /// Forgets an event that could not be kept. Whoever submitted it learns that from its saving,
    /// and tells people or tries again.
    pub(crate) fn not_saved(&self, event: &Event) {
        tracing::error!(event = event.sequence, lane = %event.lane, "event taken back: it could not be written to state/queue.md");
        if let Some(journal) = &self.parts.journal {
            journal.forget(event.sequence);
        }
        self.saved(event.sequence);
    }

    /// The event is over, whatever became of it.
    pub(crate) fn check_off(&self, event: &Event) -> Option<Saving> {
        let journal = self.parts.journal.as_ref()?;
        Some(journal.finished(event, jiff::Timestamp::now().as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::event::{EventKind, Lane, Origin};

    #[test]
    fn a_stem_leaves_room_for_what_stands_behind_it_whatever_the_number() {
        let stem_of = |sequence, at_ms| {
            let origin = Origin::Console;
            let event = NewEvent::new(EventKind::Message, Lane::Console, origin, "");
            stem(&event.accepted(sequence, at_ms), 3)
        };
        let numbers = [1, u64::from(u32::MAX), 1 << 32, (1 << 40) + 7, (1 << 52) - 1];
        for number in numbers {
            for at_ms in [0, 36_i64.pow(4), 1_800_000_000_000] {
                let stem = stem_of(number, at_ms);
                assert!(stem.len() <= 17, "{stem}");
                assert_ne!(stem, stem_of(number + 1, at_ms));
            }
        }
        assert_eq!(stem_of(1, 1_800_000_000_000), "mywpiww01.3");
    }
}
