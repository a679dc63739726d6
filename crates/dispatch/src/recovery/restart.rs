//! Decides how the events continue that a previous gateway process left open.
//!
//! * A waiting event runs.
//! * A turn whose agent still runs continues.
//! * A turn that used no tool runs again. People are asked about one that did.
//! * A saved answer is delivered.
//! * An event that was running during three crashes is set aside, and people are asked.
//!
//! In a cluster, people are asked about every started turn that does not continue: its node may
//! have lost its lease before it could record the use of a tool. Pinned by
//! `tests/dispatch/kept.rs`.

use crate::outlet::{Answer, Notice, Offer};
use crate::questions::{Person, question_id};
use crate::recovery::absorb::Absorbed;
use crate::{Dispatcher, Inner};
use aetheel_model::event::{Event, Lane, Origin, Sequence};
use aetheel_model::vigil;
use aetheel_store::workspace::{Entry, Journal, OFFER_SPAN_MS};

/// The number of crashes after which an event is suspected to cause them.
const CRASH_LIMIT: u32 = 3;
const LABEL: &str = "Try again";
/// The answer to a message that was sent to a turn that does not run again without asking.
const RECEIVED: &str = "The agent had received this when I was interrupted. If the work is done again, please send it again. (interrupted)";

/// How an event of a previous process continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Its turn has ended.
    Over,
    /// It runs, for the first time or again.
    Again,
    /// People are asked about it.
    Asked,
    /// Its agent still runs, so its turn continues.
    GoesOn,
}

impl Turn {
    fn of(entry: Option<&Entry>) -> Self {
        match entry {
            None => Self::Over,
            Some(entry) if entry.answer.is_some() => Self::Over,
            Some(entry)
                if entry.offered.is_some()
                    || entry.tool
                    || entry.doubtful
                    || entry.started >= CRASH_LIMIT =>
            {
                Self::Asked
            }
            Some(_) => Self::Again,
        }
    }
}

/// The unfinished events of a previous process, by the way they continue.
#[derive(Default)]
pub(super) struct TakenUp {
    /// Events whose turns continue.
    going_on: Vec<Sequence>,
    /// The number of events that wait in the queue again.
    restored: usize,
    /// The number of events that people were asked about before.
    offered: usize,
    /// Events that people are asked about now.
    offers: Vec<Entry>,
    /// Events whose threads must be opened.
    threads: Vec<Event>,
}

/// The reason why people are asked whether to run an event again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was running during too many crashes of the gateway.
    SetAside,
    /// It was interrupted after its agent had used a tool.
    Interrupted,
    /// It was interrupted, and its agent may have used a tool.
    Unknown,
    /// Its turn panicked.
    Broke,
}

/// The effect of pressing the button of an [`Offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The event runs again.
    Started,
    /// One or more lost replies are delivered.
    Delivered,
    /// The abilities of a component are accepted.
    Accepted,
}

/// Why a button press has no effect, worded for the person who pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgainRefusal {
    /// The event was started again already, or the offer is too old.
    #[error("This is no longer available.")]
    Gone,
    /// The person neither asked for the event nor is an approver.
    #[error(
        "You may not start this again: only the person who asked, the bot's owner and its approvers may."
    )]
    NotYours,
    /// The gateway is stopping.
    #[error("I am restarting. Please try again in a minute.")]
    ShuttingDown,
    /// It could not be saved.
    #[error("This could not be saved, so it was not started. Please try again later. (storage)")]
    NotSaved,
    /// A lost reply, and the person may not use the bot in that channel.
    #[error("You may not start this: only people who may use me in this channel can.")]
    NotAdmitted,
    /// Lost replies of other people, and the person is neither the owner nor an approver.
    #[error("This is for the bot's owner and its approvers.")]
    NotOperator,
    /// The abilities of a component, and the person is not the owner.
    #[error("Only my owner may accept this.")]
    NotOwner,
    /// A lost reply that the current backend cannot read.
    #[error("No version of the backend can read this answer yet. It is kept.")]
    NotYet,
    /// A lost reply that is still being read.
    #[error("I am reading it again; if that works, the reply follows.")]
    Reading,
    /// A lost reply that was delivered, or is being delivered.
    #[error("This was delivered already.")]
    Delivered,
}

impl Dispatcher {
    /// Restores the agents that still run, with their turns. Must be called once, before
    /// [`Dispatcher::recover`].
    pub async fn revive(&self) {
        self.inner.links.revive(&self.inner.parts.backends).await;
    }

    /// Restores the events that a previous process left open. Must be called once, before any event
    /// is submitted. People are asked in the background. Returns once the journal records which
    /// events need that, or false if it could not be written.
    pub async fn recover(&self) -> bool {
        self.recover_but(|_| false).await.1
    }

    /// Does the same as [`Dispatcher::recover`], except for events of lanes that are `closed`,
    /// where agents of another machine may still run. Also returns these events.
    pub async fn recover_but(&self, closed: impl Fn(&Lane) -> bool) -> (Absorbed, bool) {
        let Some(journal) = self.inner.parts.journal.clone() else {
            return (Absorbed { dispatcher: self.clone(), events: Vec::new() }, true);
        };
        let (later, now): (Vec<Entry>, Vec<Entry>) =
            journal.open_events().into_iter().partition(|entry| closed(&entry.event.lane));
        let later = later.iter().map(|entry| entry.event.sequence).collect();
        let taken = self.inner.take_up(&journal, now);
        // Recorded, because for the next process the holder is not new, and it would not ask.
        let savings: Vec<_> = taken
            .offers
            .iter()
            .filter(|entry| !entry.tool && self.inner.parts.unwatched_agents)
            .map(|entry| journal.doubt(entry.event.sequence))
            .collect();
        // The other turns have an answer or were given up.
        self.inner.links.end_continued_but(|event, _| taken.going_on.contains(&event));
        let asks = self.inner.links.continued_asks();
        let questions: Vec<String> =
            asks.iter().map(|(turn, ask, time)| question_id(turn, *ask, *time)).collect();
        self.inner.parts.outlet.continue_questions(&questions);
        self.see_to(&journal, taken);
        let mut saved = true;
        for saving in savings {
            saved &= saving.done().await;
        }
        (Absorbed { dispatcher: self.clone(), events: later }, saved)
    }

    /// Continues with restored events. Returns at once.
    pub(super) fn see_to(&self, journal: &Journal, taken: TakenUp) {
        let TakenUp { going_on, restored, offered, offers, threads } = taken;
        if going_on.len() + restored + offers.len() + offered > 0 {
            tracing::info!(
                going_on = going_on.len(),
                restored,
                asked = offers.len(),
                offered,
                "restored the events of the previous process"
            );
        }
        let (inner, journal) = (self.inner.clone(), journal.clone());
        let in_hand: Vec<_> =
            offers.iter().map(|entry| inner.delivery.in_hand.hold(&entry.event)).collect();
        let offering = async move {
            for entry in offers {
                let why = match &entry {
                    entry if entry.tool => Why::Interrupted,
                    entry if entry.started >= CRASH_LIMIT => Why::SetAside,
                    _ => Why::Unknown,
                };
                inner.offer(&journal, &entry, why).await;
            }
            drop(in_hand);
        };
        vigil::errand("recovery", self.inner.tasks.track_future(offering));
        for event in threads {
            self.open_thread(event, None);
        }
        self.pump();
    }

    /// Runs an offered event again, or delivers lost replies, because a person pressed a button.
    /// Only the first press counts. `admitted` says whether the person may use the bot where the
    /// button is. Returns once that is on disk.
    ///
    /// # Errors
    /// [`AgainRefusal`], worded for that person. Nothing was started.
    pub async fn again(
        &self,
        id: &str,
        person: &Person,
        admitted: bool,
    ) -> Result<Again, AgainRefusal> {
        if let Some(pressed) = self.press_of_lost(id, person, admitted).await {
            return pressed;
        }
        let journal = self.inner.parts.journal.as_ref().ok_or(AgainRefusal::Gone)?;
        let (sequence, again) = read_id(id).ok_or(AgainRefusal::Gone)?;
        let entry = journal
            .entry(sequence)
            .filter(|entry| entry.again == again)
            .ok_or(AgainRefusal::Gone)?;
        let fresh = |at: i64| at >= jiff::Timestamp::now().as_millisecond() - OFFER_SPAN_MS;
        if !entry.offered.is_some_and(fresh) {
            return Err(AgainRefusal::Gone);
        }
        let event = entry.event.clone();
        if !self.inner.questions.may_act(event.asker, &event.lane, person) {
            tracing::warn!(event = sequence, lane = %event.lane, ?person, "refused to start an event again: neither asker nor approver");
            return Err(AgainRefusal::NotYours);
        }
        let saving = {
            let queue = self.inner.lanes.queue.lock();
            if queue.is_closed() {
                return Err(AgainRefusal::ShuttingDown);
            }
            if journal.is_failing() {
                return Err(AgainRefusal::NotSaved);
            }
            // Checked again under the lock: another press may have been faster.
            if journal
                .entry(sequence)
                .is_none_or(|entry| entry.again != again || entry.offered.is_none())
            {
                return Err(AgainRefusal::Gone);
            }
            journal.again(sequence)
        };
        if !saving.done().await {
            // The button works again once the journal can be written.
            journal.put_back(entry);
            tracing::error!(
                event = sequence,
                "cannot record in state/queue.md that an event runs again"
            );
            return Err(AgainRefusal::NotSaved);
        }
        tracing::info!(event = sequence, lane = %event.lane, ?person, "a person started an event again");
        self.inner.lanes.queue.lock().restore(event);
        self.pump();
        Ok(Again::Started)
    }
}

/// The follow-up of an event whose turn has left its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// The event runs again.
    Again,
    /// People are asked whether it runs again.
    Ask,
    /// The event waits again, and its lane is paused, until its backend works.
    Paused,
}

impl Inner {
    /// Restores entries that were left open, oldest first.
    pub(super) fn take_up(&self, journal: &Journal, entries: Vec<Entry>) -> TakenUp {
        let mut taken = TakenUp::default();
        let mut queue = self.lanes.queue.lock();
        for entry in entries {
            let turn = |turn| self.turn_after_start(journal.entry(turn).as_ref());
            match entry.heard.map_or(Turn::Again, turn) {
                Turn::Again => {}
                _ if entry.answer.is_some() => {}
                Turn::GoesOn => {
                    // Finished together with the turn that accepted it.
                    self.lanes.carry(entry.heard.unwrap_or_default(), entry.event);
                    continue;
                }
                Turn::Over => {
                    let _ = journal.finished(&entry.event, jiff::Timestamp::now().as_millisecond());
                    continue;
                }
                // Delivered like any saved answer: once, even after another crash.
                Turn::Asked => {
                    let backend = self.parts.choices.backend.clone();
                    let answer = Answer::failed(backend, RECEIVED).to_json();
                    let _ = journal.answered(entry.event.sequence, answer);
                    taken.restored += 1;
                    queue.restore(entry.event);
                    continue;
                }
            }
            let turn = self.turn_after_start(Some(&entry));
            if turn == Turn::GoesOn {
                taken.going_on.push(entry.event.sequence);
                queue.restore(entry.event);
            } else if entry.offered.is_some() {
                taken.offered += 1;
            } else if entry.event.opens_thread && entry.answer.is_none() {
                taken.restored += 1;
                queue.hold_again(entry.event.clone());
                taken.threads.push(entry.event);
            } else if turn == Turn::Asked {
                taken.offers.push(entry);
            } else {
                taken.restored += 1;
                queue.restore(entry.event);
            }
        }
        taken
    }

    /// Returns the journal and the entry of an event that the next process would continue.
    pub(crate) fn noted(&self, event: &Event) -> Option<(&Journal, Entry)> {
        let journal = self.parts.journal.as_ref().filter(|_| !event.of_one_life())?;
        Some((journal, journal.entry(event.sequence)?))
    }

    /// Returns how to continue an event whose agent was lost together with the holder, as after a
    /// crash of the gateway. Returns `None` if the journal does not have the event, so that it has
    /// failed.
    pub(crate) fn orphaned(&self, event: &Event) -> Option<Left> {
        let (_, entry) = self.noted(event)?;
        match Turn::of(Some(&entry)) {
            Turn::Again => {
                tracing::warn!("the agent was lost; the turn runs again");
                Some(Left::Again)
            }
            Turn::Asked => Some(Left::Ask),
            Turn::Over | Turn::GoesOn => None,
        }
    }

    /// Asks people whether to run an event again, if the journal has it.
    pub(crate) async fn ask_about(&self, event: &Event, why: Why) {
        if let Some((journal, entry)) = self.noted(event) {
            self.offer(journal, &entry, why).await;
        }
    }

    /// Returns how an event continues, according to its entry in the journal.
    fn turn_of(&self, entry: Option<&Entry>) -> Turn {
        let goes_on = |entry: &&Entry| {
            entry.answer.is_none()
                && entry.offered.is_none()
                && self.links.continues(entry.event.sequence, &entry.event.lane)
        };
        entry.filter(goes_on).map_or_else(|| Turn::of(entry), |_| Turn::GoesOn)
    }

    /// Returns how an event continues in a process that did not observe its turn. People are asked
    /// about a started turn if its agent may have used a tool without a record. This happens on a
    /// node that lost its lease, and if a gateway ended before its agents.
    fn turn_after_start(&self, entry: Option<&Entry>) -> Turn {
        let turn = self.turn_of(entry);
        let had_begun = entry.is_some_and(|entry| entry.started > 0);
        let may_have_used_a_tool = self.parts.router.is_some() || self.parts.unwatched_agents;
        if turn == Turn::Again && had_begun && may_have_used_a_tool { Turn::Asked } else { turn }
    }

    /// Asks people whether to run an event again. The question appears below the part of the answer
    /// that was posted.
    pub(crate) async fn offer(&self, journal: &Journal, entry: &Entry, why: Why) {
        let (event, aside) = (&entry.event, why == Why::SetAside);
        let (channel, about) = place(event);
        let what = if about.is_some() { "this".to_owned() } else { self.excerpt(event) };
        let text = match why {
            Why::SetAside => {
                tracing::error!(event = event.sequence, lane = %event.lane, deaths = entry.started, "an event was running during each of the gateway's last crashes; it is set aside");
                format!(
                    "I crashed {} times while I worked on {what}, so I have set it aside. (set aside)",
                    entry.started
                )
            }
            Why::Interrupted => {
                tracing::warn!(event = event.sequence, lane = %event.lane, "an event was interrupted after its agent had used a tool; people are asked");
                format!(
                    "I was interrupted while I worked on {what} and had already used a tool, so I did not simply start again. (interrupted)"
                )
            }
            Why::Unknown => {
                tracing::warn!(event = event.sequence, lane = %event.lane, "an event was interrupted and its agent may have used a tool; people are asked");
                format!(
                    "I was interrupted while I worked on {what} and may have used a tool, so I did not simply start again. (interrupted)"
                )
            }
            Why::Broke => format!(
                "Something inside me broke while I worked on {what}. The log has the details. (internal)"
            ),
        };
        let offer = Offer { id: id_of(event.sequence, entry.again), label: LABEL.to_owned() };
        let notice = Notice { channel, about, text, offer: Some(offer.clone()) };
        // The posted messages must not look like an answer.
        let prior = self.durability.kept(event).prior_delivery(event);
        let posted = self.parts.outlet.give_up(event, notice, prior).await;
        if aside && channel.is_some() {
            let text = format!(
                "An event in {} was running when I crashed, {} times; I have set it aside. (set aside)",
                event.lane, entry.started
            );
            // If there is no channel for notices, the log line above remains.
            let _ = self.parts.outlet.notify(Notice::for_operator(text, Some(offer))).await;
        }
        match posted {
            Ok(()) => {
                journal.offered(event.sequence, jiff::Timestamp::now().as_millisecond(), aside)
            }
            Err(error) => {
                tracing::error!(event = event.sequence, lane = %event.lane, %error, "nobody could be asked about an event; trying again with the next start");
            }
        }
    }

    /// Returns the beginning of a prompt on one line, for a notice that cannot refer to the
    /// message.
    fn excerpt(&self, event: &Event) -> String {
        let line: String = event
            .prompt
            .chars()
            .map(|c| if c.is_control() || c == '`' { ' ' } else { c })
            .take(80)
            .collect();
        let line = self.parts.redactor.clean(line.trim().to_owned());
        match &event.lane {
            Lane::Channel(_) | Lane::Console => format!("`{line}`"),
            lane => format!("{lane}: `{line}`"),
        }
    }
}

/// Returns the channel for notices about an event, and the message that it came from.
pub(crate) fn place(event: &Event) -> (Option<u64>, Option<u64>) {
    match (&event.origin, &event.lane) {
        (Origin::Message { channel, message }, _) => (Some(*channel), Some(*message)),
        (Origin::Interaction { channel, .. }, _) | (_, Lane::Channel(channel)) => {
            (Some(*channel), None)
        }
        (Origin::Internal { channel }, _) => (*channel, None),
        (Origin::Console, _) => (None, None),
    }
}

/// Returns the id of a button: the event, and the attempt at it. An old button therefore cannot
/// start a later attempt.
fn id_of(sequence: Sequence, again: u32) -> String {
    format!("{sequence}-{again}")
}

fn read_id(id: &str) -> Option<(Sequence, u32)> {
    let (sequence, again) = id.split_once('-')?;
    Some((sequence.parse().ok()?, again.parse().ok()?))
}
