//! Decides how the unfinished events of a previous gateway process continue.
//!
//! * A waiting event runs.
//! * A turn whose agent still runs continues.
//! * A turn that used no tool runs again. People are asked about a turn that used one.
//! * A saved answer is delivered.
//! * An event that was running during three crashes is set aside, and people are asked.
//!
//! In a cluster, people are asked about every started turn that does not continue: its node may
//! have lost its lease before it could record the use of a tool. Tested by
//! `tests/dispatch/kept.rs`.

use std::sync::Arc;

use crate::Shared;
use crate::outlet::TurnAnswer;
use crate::questions::{Person, question_id};
use crate::recovery::offer::{OfferEffect, OfferReason, OfferRefusal, parse_offer_id};
use crate::recovery::redeliver::Redelivery;
use crate::recovery::restart_action::{CRASH_LIMIT, RestartAction};
use crate::thread;
use aetheel_model::event::{Event, EventOrigin, Lane, Sequence};
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_runtime::supervisor;
use aetheel_store::workspace::{Journal, JournalEntry, JournalMark, OFFER_SPAN_MS};

/// The answer to a message that was sent to a turn that does not run again without asking.
const RECEIVED_FAILURE: &str = "The agent had received this when I was interrupted. If the work is done again, please send it again. (interrupted)";

/// The unfinished events of a previous process, by the way they continue.
#[derive(Default)]
pub(super) struct RestoredEvents {
    /// Events whose turns continue.
    resumed: Vec<Sequence>,
    /// The number of events that wait in the queue again.
    restored: usize,
    /// The number of events that people were asked about before.
    offered_before: usize,
    /// Events that people are asked about now.
    to_offer: Vec<JournalEntry>,
    /// Events whose threads must be opened.
    threads_to_open: Vec<Event>,
}

/// Events imported from another node that have not started here. If this value is dropped, they
/// start when the gateway starts again.
#[must_use]
pub struct ImportedEvents {
    pub(super) recovery: Recovery,
    pub(super) events: Vec<Sequence>,
}

impl ImportedEvents {
    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Splits the events into those of matching lanes and the others.
    pub fn split(self, lanes: impl Fn(&Lane) -> bool) -> (Self, Self) {
        let journal = self.recovery.shared.deps.journal.clone();
        let is_theirs = |event: &Sequence| {
            let entry = journal.as_ref().and_then(|journal| journal.entry(*event));
            entry.is_some_and(|entry| lanes(&entry.event.lane))
        };
        let (theirs, others) = self.events.into_iter().partition(is_theirs);
        let recovery = self.recovery.clone();
        (Self { recovery, events: theirs }, Self { recovery: self.recovery, events: others })
    }

    /// Starts the events, each like an event after a restart: a waiting event runs, people are
    /// asked about a turn that used a tool, and a saved answer is delivered. Returns at once.
    pub fn begin(self) {
        let Some(journal) = self.recovery.shared.deps.journal.clone() else { return };
        if self.recovery.shared.lanes.queue.lock().is_closed() {
            return;
        }
        let entries = self.events.iter().filter_map(|event| journal.entry(*event)).collect();
        let taken = self.recovery.restore_entries(&journal, entries);
        self.recovery.resume_restored(&journal, taken);
    }
}

/// Continues the unfinished events of a previous process. Cheap to clone.
#[derive(Clone)]
pub struct Recovery {
    pub(super) shared: Arc<Shared>,
}

impl Recovery {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Restores the agents that still run, with their turns. Must be called once, before
    /// [`Recovery::recover`].
    pub async fn restore_agents(&self) {
        let hand_offs = self.shared.links.revive(&self.shared.deps.backends).await;
        self.shared.hand_offs.restore(hand_offs, self.shared.deps.clock.now());
    }

    /// Restores the unfinished events of a previous process. Must be called once, before any event
    /// is submitted. People are asked in the background. Returns once the journal records which
    /// events need that, or false if it could not be written.
    pub async fn recover(&self) -> bool {
        self.recover_except(|_| false, |_| false).await.1
    }

    /// Does the same as [`Recovery::recover`], except for events of lanes that are `closed`,
    /// where agents of another machine may still run. Also returns these events. Keeps the agents
    /// of `returning` lanes, whose events another node gives back.
    pub async fn recover_except(
        &self,
        closed: impl Fn(&Lane) -> bool,
        returning: impl Fn(&Lane) -> bool,
    ) -> (ImportedEvents, bool) {
        let Some(journal) = self.shared.deps.journal.clone() else {
            return (ImportedEvents { recovery: self.clone(), events: Vec::new() }, true);
        };
        let (later, now): (Vec<JournalEntry>, Vec<JournalEntry>) =
            journal.open_events().into_iter().partition(|entry| closed(&entry.event.lane));
        let later = later.iter().map(|entry| entry.event.sequence).collect();
        let taken = self.restore_entries(&journal, now);
        // Recorded in the journal, because the next process cannot detect that output of these
        // agents was lost, and would not ask people.
        let savings: Vec<_> = taken
            .to_offer
            .iter()
            .filter(|entry| !entry.used_tool && self.shared.deps.unwatched_agents)
            .map(|entry| journal.mark(entry.event.sequence, JournalMark::Doubtful))
            .collect();
        // The other turns have an answer or were given up.
        let continued = self.shared.links.continued();
        continued.retain(|event, lane| taken.resumed.contains(&event) || returning(lane));
        let asks = continued.asks();
        let questions: Vec<String> =
            asks.iter().map(|(turn, ask, time)| question_id(turn, *ask, *time)).collect();
        self.shared.deps.outlet.continue_questions(&questions);
        self.resume_restored(&journal, taken);
        let mut saved = true;
        for saving in savings {
            saved &= saving.done().await;
        }
        (ImportedEvents { recovery: self.clone(), events: later }, saved)
    }

    /// Continues with restored events. Returns at once.
    pub(super) fn resume_restored(&self, journal: &Journal, taken: RestoredEvents) {
        let RestoredEvents { resumed, restored, offered_before, to_offer, threads_to_open } = taken;
        if resumed.len() + restored + to_offer.len() + offered_before > 0 {
            tracing::info!(
                going_on = resumed.len(),
                restored,
                asked = to_offer.len(),
                offered = offered_before,
                "restored the events of the previous process"
            );
        }
        let (this, journal) = (self.clone(), journal.clone());
        let in_hand: Vec<_> = to_offer
            .iter()
            .map(|entry| this.shared.delivery.in_flight.track(&entry.event))
            .collect();
        let offering = async move {
            for entry in to_offer {
                let why = match &entry {
                    entry if entry.used_tool => OfferReason::Interrupted,
                    entry if entry.started >= CRASH_LIMIT => OfferReason::SetAside,
                    _ => OfferReason::PossibleToolUse,
                };
                this.offer(&journal, &entry, why).await;
            }
            drop(in_hand);
        };
        supervisor::spawn_finite("recovery", self.shared.tasks.track_future(offering));
        for event in threads_to_open {
            thread::open(&self.shared, event, None);
        }
        self.shared.start_waiting();
    }

    /// Runs an offered event again, or delivers lost replies, because a person pressed a button.
    /// Only the first press counts. `admitted` means that the person may use the bot in the channel
    /// of the button. Returns once the result is on disk.
    ///
    /// # Errors
    /// [`OfferRefusal`], worded for that person. Nothing was started.
    pub async fn accept_offer(
        &self,
        id: &str,
        person: &Person,
        admitted: bool,
    ) -> Result<OfferEffect, OfferRefusal> {
        if let Some(pressed) =
            Redelivery::new(self.shared.clone()).press_lost_button(id, person, admitted).await
        {
            return pressed;
        }
        let journal = self.shared.deps.journal.as_ref().ok_or(OfferRefusal::Gone)?;
        let (sequence, again) = parse_offer_id(id).ok_or(OfferRefusal::Gone)?;
        let entry = journal
            .entry(sequence)
            .filter(|entry| entry.retries == again)
            .ok_or(OfferRefusal::Gone)?;
        let fresh = |at: i64| at >= self.shared.deps.clock.now_ms() - OFFER_SPAN_MS;
        let event = entry.event.clone();
        if !entry.offered_ms.is_some_and(fresh) {
            // The previous process posted the button and ended before it recorded that. This one
            // recognises its message instead of posting another, so the button must stay.
            let is_offering = entry.offered_ms.is_none()
                && self.shared.delivery.in_flight.any_in(|lane| *lane == event.lane);
            return Err(if is_offering { OfferRefusal::NotReady } else { OfferRefusal::Gone });
        }
        if !self.shared.questions.may_decide(event.asker, &event.lane, person) {
            tracing::warn!(event = sequence, lane = %event.lane, ?person, "refused to start an event again: neither asker nor approver");
            return Err(OfferRefusal::NotYours);
        }
        let saving = {
            let queue = self.shared.lanes.queue.lock();
            if queue.is_closed() {
                return Err(OfferRefusal::ShuttingDown);
            }
            if journal.is_failing() {
                return Err(OfferRefusal::NotSaved);
            }
            // Checked again under the lock: another press may have been faster.
            if journal
                .entry(sequence)
                .is_none_or(|entry| entry.retries != again || entry.offered_ms.is_none())
            {
                return Err(OfferRefusal::Gone);
            }
            journal.mark(sequence, JournalMark::Retry)
        };
        if !saving.done().await {
            // The button works again once the journal can be written.
            journal.restore(entry);
            tracing::error!(
                event = sequence,
                "cannot record in the queue that an event runs again"
            );
            return Err(OfferRefusal::NotSaved);
        }
        tracing::info!(event = sequence, lane = %event.lane, ?person, "a person started an event again");
        self.shared.lanes.queue.lock().restore(event);
        self.shared.start_waiting();
        Ok(OfferEffect::Started)
    }
}

impl Recovery {
    /// Restores the unfinished entries of a journal, oldest first.
    pub(super) fn restore_entries(
        &self,
        journal: &Journal,
        entries: Vec<JournalEntry>,
    ) -> RestoredEvents {
        let mut taken = RestoredEvents::default();
        let mut queue = self.shared.lanes.queue.lock();
        for entry in entries {
            let turn = |turn| self.unobserved_restart_action(journal.entry(turn).as_ref());
            match entry.joined_turn.map_or(RestartAction::Run, turn) {
                RestartAction::Run => {}
                _ if entry.answer.is_some() => {}
                RestartAction::Resume => {
                    // The message is finished together with the turn that accepted it.
                    self.shared
                        .lanes
                        .keep_for_resumed_turn(entry.joined_turn.unwrap_or_default(), entry.event);
                    continue;
                }
                RestartAction::Finish => {
                    let _ = journal.finished(&entry.event, self.shared.deps.clock.now_ms());
                    continue;
                }
                // Delivered like any saved answer: once, even after another crash.
                RestartAction::AskPeople => {
                    let backend = self.shared.deps.choices.backend.clone();
                    let answer = TurnAnswer::failed(backend, RECEIVED_FAILURE).to_json();
                    let _ = journal.mark(entry.event.sequence, JournalMark::Answered(answer));
                    taken.restored += 1;
                    queue.restore(entry.event);
                    continue;
                }
            }
            let turn = self.unobserved_restart_action(Some(&entry));
            if turn == RestartAction::Resume {
                taken.resumed.push(entry.event.sequence);
                queue.restore(entry.event);
            } else if entry.offered_ms.is_some() {
                taken.offered_before += 1;
            } else if entry.event.opens_thread && entry.answer.is_none() {
                taken.restored += 1;
                queue.hold_again(entry.event.clone());
                taken.threads_to_open.push(entry.event);
            } else if turn == RestartAction::AskPeople {
                taken.to_offer.push(entry);
            } else {
                taken.restored += 1;
                queue.restore(entry.event);
            }
        }
        taken
    }

    /// Returns how an event continues, according to its entry in the journal.
    fn restart_action(&self, entry: Option<&JournalEntry>) -> RestartAction {
        let goes_on = |entry: &&JournalEntry| {
            entry.answer.is_none()
                && entry.offered_ms.is_none()
                && self.shared.links.continued().contains(entry.event.sequence, &entry.event.lane)
        };
        entry.filter(goes_on).map_or_else(|| RestartAction::of(entry), |_| RestartAction::Resume)
    }

    /// Returns how an event continues in a process that did not observe its turn. People are asked
    /// about a started turn if its agent may have used a tool without a record. This happens on a
    /// node that lost its lease, and if a gateway ended before its agents.
    fn unobserved_restart_action(&self, entry: Option<&JournalEntry>) -> RestartAction {
        let turn = self.restart_action(entry);
        let had_begun = entry.is_some_and(|entry| entry.started > 0);
        let may_have_used_a_tool =
            self.shared.deps.router.is_some() || self.shared.deps.unwatched_agents;
        if turn == RestartAction::Run && had_begun && may_have_used_a_tool {
            RestartAction::AskPeople
        } else {
            turn
        }
    }
}

/// Returns the channel for notices about an event, and the message that it came from.
pub(crate) fn notice_target(event: &Event) -> (Option<ChannelId>, Option<MessageId>) {
    match (&event.origin, &event.lane) {
        (EventOrigin::Message { channel, message }, _) => (Some(*channel), Some(*message)),
        (EventOrigin::Interaction { channel, .. }, _) | (_, Lane::Channel(channel)) => {
            (Some(*channel), None)
        }
        (EventOrigin::Internal { channel }, _) => (*channel, None),
        (EventOrigin::Console, _) => (None, None),
    }
}
