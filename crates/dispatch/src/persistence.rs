//! Saves accepted events and their progress in the journal, so that they survive a restart.
//!
//! No turn starts before its event is on disk.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::deps::DispatcherDeps;
use super::outlet::{Outlet, PriorDelivery, Reply, TurnAnswer};
use aetheel_model::event::{BLOCK_BITS, Event, NewEvent, Sequence};
use aetheel_store::workspace::{Journal, JournalEntry, JournalMark, PendingSave};
use aetheel_turn::{FinishedTurnSlot, StopReason};

/// Delay before a failed write of the journal is retried.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

type StopSignal = watch::Receiver<Option<StopReason>>;

/// The saved progress of an event. Empty for an event that is not in the journal.
#[derive(Clone)]
pub(crate) struct EventProgress {
    /// The journal, and its entry as it was when the turn started.
    journal_entry: Option<(Journal, Arc<JournalEntry>)>,
    tool_used: Arc<AtomicBool>,
    /// The answer, if this process knew it when it accepted the event.
    known_answer: Option<Arc<TurnAnswer>>,
    /// Keeps the finished turn resumable on the link to its agent, until the answer is saved. After
    /// a restart, the next process continues the turn if the answer was not saved, and delivers the
    /// answer if it was.
    turn_place: Arc<Mutex<FinishedTurnSlot>>,
}

impl EventProgress {
    /// Opens the reply, together with the messages that previous processes posted of it.
    pub(crate) fn open_reply(&self, outlet: &dyn Outlet, event: &Event) -> Box<dyn Reply> {
        if self.journal_entry.is_some() {
            outlet.open_tracked(event, self.prior_delivery(event))
        } else {
            outlet.open(event)
        }
    }

    /// Returns the messages that previous processes posted of the reply.
    pub(crate) fn prior_delivery(&self, event: &Event) -> PriorDelivery {
        let Some((journal, entry)) = &self.journal_entry else { return PriorDelivery::untracked() };
        let (journal, sequence) = (journal.clone(), event.sequence);
        PriorDelivery {
            stem: delivery_stem(event, entry.retries),
            posted: entry.posted.clone(),
            resumed: entry.started > 0 || (entry.answer.is_some() && self.known_answer.is_none()),
            note: Arc::new(move |ids| {
                drop(journal.mark(sequence, JournalMark::Posted(ids.to_vec())))
            }),
        }
    }

    /// Returns the answer in the journal, or the answer that was known when the event was accepted.
    /// The saved answer may not have been delivered.
    pub(crate) fn stored_answer(&self) -> Option<TurnAnswer> {
        if let Some(known) = &self.known_answer {
            return Some((**known).clone());
        }
        let (_, entry) = self.journal_entry.as_ref()?;
        let read = serde_json::from_str(entry.answer.as_ref()?);
        read.map_err(|error| tracing::warn!(%error, "the saved answer cannot be read; asking the agent again")).ok()
    }

    /// Returns whether the turn may have started before.
    pub(crate) fn began_before(&self) -> bool {
        self.journal_entry.as_ref().is_some_and(|(_, entry)| entry.started > 0 || entry.retries > 0)
    }

    /// Returns whether a failed delivery of the answer may be retried once after the next start.
    pub(crate) fn has_retry_left(&self) -> bool {
        self.journal_entry.is_some()
            && (self.known_answer.is_some() || self.stored_answer().is_none())
    }

    /// Keeps the finished turn resumable until [`EventProgress::release_turn_place`].
    pub(crate) fn hold_turn_place(&self, place: FinishedTurnSlot) {
        *self.turn_place.lock() = place;
    }

    /// Ends the effect of [`EventProgress::hold_turn_place`], because the answer is saved or the
    /// next process continues the turn.
    pub(crate) fn release_turn_place(&self) {
        drop(std::mem::take(&mut *self.turn_place.lock()));
    }

    /// Records in the journal that the turn starts. Returns once that is on disk or the turn is
    /// stopped. Without this record, the turn would start a second time after a crash.
    pub(crate) async fn record_start(&self, stop: &StopSignal) {
        if let Some((journal, entry)) = &self.journal_entry {
            if journal.mark(entry.event.sequence, JournalMark::Started).done().await {
                return;
            }
            let mut stop = stop.clone();
            tokio::select! {
                () = wait_for_journal(journal, entry) => {}
                Ok(_) = stop.wait_for(Option::is_some) => {}
            }
        }
    }

    /// Records that the agent used a tool, after which the turn is not repeated without asking
    /// people. Returns the pending write for the first tool of the turn.
    pub(crate) fn record_tool_use(&self) -> Option<PendingSave> {
        let (journal, entry) = self.journal_entry.as_ref()?;
        let first = !self.tool_used.swap(true, Ordering::Relaxed);
        first.then(|| journal.mark(entry.event.sequence, JournalMark::UsedTool))
    }

    /// Returns whether a previous process was about to stop the turn because a budget was used up.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.journal_entry.as_ref().is_some_and(|(_, entry)| entry.cut_off)
    }

    /// Leaves a turn that was stopped by a shutdown to the next start. Returns the action of the
    /// next start, or `None` if the event is not in the journal.
    pub(crate) fn leave_to_next_start(&self) -> Option<NextStart> {
        let (journal, entry) =
            self.journal_entry.as_ref().filter(|(_, entry)| !entry.event.ends_with_process())?;
        if self.tool_used.load(Ordering::Relaxed) {
            return Some(NextStart::AskPeople);
        }
        journal.mark(entry.event.sequence, JournalMark::Waiting);
        Some(NextStart::Rerun)
    }

    /// Saves the answer of the turn. Returns true once it is on disk. Returns false if the gateway
    /// ends before. The answer must not be delivered then: the turn is repeated by the next process
    /// or by another node, and people would get two answers.
    pub(crate) async fn record_answer(&self, answer: &TurnAnswer, stop: &StopSignal) -> bool {
        let Some((journal, entry)) = &self.journal_entry else { return true };
        if journal.mark(entry.event.sequence, JournalMark::Answered(answer.to_json())).done().await
        {
            return true;
        }
        let mut stop = stop.clone();
        tokio::select! {
            () = wait_for_journal(journal, entry) => true,
            Ok(_) = stop.wait_for(|stop| *stop == Some(StopReason::Shutdown)) => {
                tracing::error!("the answer could not be saved before the gateway ends; people are asked after the next start");
                false
            }
        }
    }

    /// Waits until a write about the turn succeeds, for as long as the disk is full. A cluster node
    /// that cannot write for too long loses its lease and ends.
    pub(crate) async fn retry_until_saved(&self, saving: PendingSave) {
        if !saving.done().await
            && let Some((journal, entry)) = &self.journal_entry
        {
            wait_for_journal(journal, entry).await;
        }
    }
}

/// Waits until the journal can be written again and all its lines are on disk.
async fn wait_for_journal(journal: &Journal, entry: &JournalEntry) {
    tracing::error!(
        event = entry.event.sequence,
        lane = %entry.event.lane,
        "the turn is paused: the queue cannot be written; it continues once the queue can be written; hint: an earlier line names the place of the queue and the reason"
    );
    while !journal.flush().await {
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    tracing::info!(
        event = entry.event.sequence,
        "the turn continues: the queue can be written again"
    );
}

/// The action of the next start for a stopped turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStart {
    /// The turn is repeated from the beginning.
    Rerun,
    /// People are asked whether to repeat the turn, because the agent had used a tool.
    AskPeople,
}

/// Returns the name under which the messages of an attempt at an event are found. It is made of the
/// event's time and number, and the number of the attempt.
pub(crate) fn delivery_stem(event: &Event, again: u32) -> String {
    let time = u64::try_from(event.accepted_ms).unwrap_or(0);
    if event.sequence >> BLOCK_BITS > 0 {
        // Nodes of a cluster use different numbers, so fewer digits of the time are enough.
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

/// Waits until an event is on disk. Returns false if it could not be written. Returns true at once
/// for an event that is not saved.
pub(crate) async fn wait_until_saved(saving: Option<PendingSave>) -> bool {
    match saving {
        Some(saving) => saving.done().await,
        None => true,
    }
}

/// Saves events in the journal. Without a journal, nothing is saved and every write counts as
/// successful.
pub(crate) struct EventPersistence {
    deps: Arc<DispatcherDeps>,
    /// Pending writes of events that may not be on disk yet.
    savings: Mutex<HashMap<Sequence, PendingSave>>,
    /// Answers that were known when their event was accepted.
    known_answers: Mutex<HashMap<Sequence, Arc<TurnAnswer>>>,
}

impl EventPersistence {
    pub(crate) fn new(deps: Arc<DispatcherDeps>) -> Self {
        Self { deps, savings: Mutex::default(), known_answers: Mutex::default() }
    }

    /// Returns the journal and the entry of an event that the next process would continue.
    pub(crate) fn journal_entry(&self, event: &Event) -> Option<(&Journal, JournalEntry)> {
        let journal = self.deps.journal.as_ref().filter(|_| !event.ends_with_process())?;
        Some((journal, journal.entry(event.sequence)?))
    }

    /// Returns whether the journal cannot be written now.
    pub(crate) fn is_failing(&self) -> bool {
        self.deps.journal.as_ref().is_some_and(Journal::is_failing)
    }

    /// Saves an event, or its changed form.
    pub(crate) fn save_event(&self, event: &Event) -> Option<PendingSave> {
        let journal = self.deps.journal.as_ref()?;
        Some(journal.accepted(&self.redacted(event)))
    }

    /// Saves an event that was accepted now. Its turn waits for this write.
    pub(crate) fn save_accepted(&self, event: &Event) -> Option<PendingSave> {
        let saving = self.save_event(event)?;
        self.savings.lock().insert(event.sequence, saving.clone());
        Some(saving)
    }

    /// Saves an event together with the answer to deliver.
    pub(crate) fn save_answered(&self, event: &Event, answer: TurnAnswer) -> Option<PendingSave> {
        let json = answer.to_json();
        self.known_answers.lock().insert(event.sequence, Arc::new(answer));
        let journal = self.deps.journal.as_ref()?;
        let saving = journal.accepted_answered(&self.redacted(event), json);
        self.savings.lock().insert(event.sequence, saving.clone());
        Some(saving)
    }

    /// Returns an event as it is saved: with the secrets in its prompt redacted. If the event is
    /// repeated after a crash, the agent does not receive the secrets.
    pub(crate) fn redacted(&self, event: &Event) -> Event {
        let mut event = event.clone();
        event.request.prompt = self.deps.redactor.redact(event.request.prompt);
        event
    }

    /// Returns the pending write of an event. Returns `None` if the event is on disk.
    pub(crate) fn saving_of(&self, event: Sequence) -> Option<PendingSave> {
        self.savings.lock().get(&event).cloned()
    }

    /// Forgets the pending write of an event.
    pub(crate) fn forget_saving(&self, event: Sequence) {
        self.savings.lock().remove(&event);
    }

    /// Returns whether an event with the same key was accepted before.
    pub(crate) fn is_known(&self, event: &NewEvent) -> bool {
        self.deps
            .journal
            .as_ref()
            .zip(event.key.as_ref())
            .is_some_and(|(journal, key)| journal.contains_key(key))
    }

    /// Returns the saved progress of an event whose turn starts.
    pub(crate) fn progress_of(&self, event: &Event) -> EventProgress {
        let noted =
            self.deps.journal.as_ref().and_then(|journal| {
                Some((journal.clone(), Arc::new(journal.entry(event.sequence)?)))
            });
        let known = self.known_answers.lock().remove(&event.sequence);
        EventProgress {
            journal_entry: noted,
            tool_used: Arc::default(),
            known_answer: known,
            turn_place: Arc::default(),
        }
    }

    /// Forgets an event that could not be saved. The pending write reports the failure to the
    /// submitter.
    pub(crate) fn discard_unsaved(&self, event: &Event) {
        tracing::error!(event = event.sequence, lane = %event.lane, "event discarded: it could not be written to the queue");
        if let Some(journal) = &self.deps.journal {
            journal.forget(event.sequence);
        }
        self.forget_saving(event.sequence);
    }

    /// Marks an event as finished in the journal, whatever its result.
    pub(crate) fn mark_finished(&self, event: &Event) -> Option<PendingSave> {
        let journal = self.deps.journal.as_ref()?;
        Some(journal.finished(event, self.deps.clock.now_ms()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::event::{EventKind, EventOrigin, Lane};

    #[test]
    fn a_stem_is_unique_and_at_most_17_characters() {
        let stem_of = |sequence, at_ms| {
            let origin = EventOrigin::Console;
            let event = NewEvent::new(EventKind::Message, Lane::Console, origin, "");
            delivery_stem(&event.accepted(sequence, at_ms), 3)
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
