//! After a restart: what becomes of the events that an earlier life of the gateway left open.
//!
//! A turn whose agent outlived the gateway goes on. An event that waited runs. One that ran and had used no tool runs again; for one that had used a
//! tool, people are asked. An answer that was not delivered is. An event that was running during
//! three crashes of the gateway is set aside, and people are asked. In a cluster people are asked
//! about every turn that had begun and does not go on: its node may have lost its place before it
//! could note that a tool was used. Pinned by
//! `tests/dispatch/kept.rs`.

use crate::outlet::{Answer, Notice, Offer};
use crate::questions::{Person, question_id};
use crate::recovery::absorb::Absorbed;
use crate::{Dispatcher, Inner};
use aetheel_model::event::{Event, Lane, Origin, Sequence};
use aetheel_model::vigil;
use aetheel_store::workspace::{Entry, Journal, OFFER_SPAN_MS};

/// An event that was running during so many crashes of the gateway may be their cause.
const CRASH_LIMIT: u32 = 3;
const LABEL: &str = "Try again";
/// The answer to a message for a turn that does not simply begin again.
const RECEIVED: &str = "The agent had taken this in when I was interrupted. If the work is done again, please send it again. (interrupted)";

/// The treatment of an event that an earlier life left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It came to its end.
    Over,
    /// It runs, again if it ran.
    Again,
    /// People are asked about it.
    Asked,
    /// It outlived the gateway.
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

/// What becomes of events that were left open.
#[derive(Default)]
pub(super) struct TakenUp {
    /// Their turns go on.
    going_on: Vec<Sequence>,
    /// How many wait in the queue again.
    restored: usize,
    /// How many people were asked about before.
    offered: usize,
    /// People are to be asked about them.
    offers: Vec<Entry>,
    /// Their threads are to be opened.
    threads: Vec<Event>,
}

/// Why people are asked whether an event is to be done again.
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

/// The effect of a press of an offer's button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The event is done again.
    Started,
    /// A lost reply, or several, are delivered.
    Delivered,
    /// The abilities of a component are accepted.
    Accepted,
}

/// Why an event is not done again, in words for the person who wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgainRefusal {
    /// It was started again already, or the offer is too old.
    #[error("This is no longer on offer.")]
    Gone,
    /// Neither asked for it nor may approve.
    #[error(
        "This is not yours to start again: whoever asked, the bot's owner and its approvers may."
    )]
    NotYours,
    /// The gateway is stopping.
    #[error("I am restarting. Please try again in a minute.")]
    ShuttingDown,
    /// It could not be written down.
    #[error("This could not be saved, so it was not started. Please try again later. (storage)")]
    NotSaved,
    /// A lost reply, and who pressed may not use the bot there.
    #[error("This is not yours to start: only who may use me in this channel can.")]
    NotAdmitted,
    /// Lost replies of others.
    #[error("This is for the bot's owner and its approvers.")]
    NotOperator,
    /// The abilities of a component, and the person is not the owner.
    #[error("Only my owner may accept this.")]
    NotOwner,
    /// A lost reply that cannot be read by what is there.
    #[error("No version of the backend can read this answer yet. It is kept.")]
    NotYet,
    /// A lost reply that takes long to read.
    #[error("I am reading it again; if that works, the reply follows.")]
    Reading,
    /// A lost reply that was delivered, or is on its way.
    #[error("This was delivered already.")]
    Delivered,
}

impl Dispatcher {
    /// Brings back the agents that outlived the gateway, with their turns. To be called once, before
    /// [`Dispatcher::recover`].
    pub async fn revive(&self) {
        self.inner.links.revive(&self.inner.parts.backends).await;
    }

    /// Brings back what an earlier life left open. To be called once, before anything is submitted.
    /// People are asked in the background. Returns once the journal says about whom they are to be
    /// asked; false if that could not be saved.
    pub async fn recover(&self) -> bool {
        self.recover_but(|_| false).await.1
    }

    /// As [`Dispatcher::recover`], but for the events of lanes that are `closed`: agents of another
    /// machine may still run there. Returns these events, too.
    pub async fn recover_but(&self, closed: impl Fn(&Lane) -> bool) -> (Absorbed, bool) {
        let Some(journal) = self.inner.parts.journal.clone() else {
            return (Absorbed { dispatcher: self.clone(), events: Vec::new() }, true);
        };
        let (later, now): (Vec<Entry>, Vec<Entry>) =
            journal.open_events().into_iter().partition(|entry| closed(&entry.event.lane));
        let later = later.iter().map(|entry| entry.event.sequence).collect();
        let taken = self.inner.take_up(&journal, now);
        // The next gateway finds the same holder, and would not ask any more.
        let savings: Vec<_> = taken
            .offers
            .iter()
            .filter(|entry| !entry.tool && self.inner.parts.unwatched_agents)
            .map(|entry| journal.doubt(entry.event.sequence))
            .collect();
        // Of what is answered or given up nobody waits for the rest.
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

    /// Goes on with events that were taken up; returns at once.
    pub(super) fn see_to(&self, journal: &Journal, taken: TakenUp) {
        let TakenUp { going_on, restored, offered, offers, threads } = taken;
        if going_on.len() + restored + offers.len() + offered > 0 {
            tracing::info!(
                going_on = going_on.len(),
                restored,
                asked = offers.len(),
                offered,
                "events of an earlier life of the gateway: their turns go on, restored, asked about now, asked about before"
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

    /// Does an event again that was offered, or delivers lost replies, because a person pressed a
    /// button; the first press counts. `admitted` says that the person may use the bot where the
    /// button is. Returns when that is on disk.
    ///
    /// # Errors
    /// [`AgainRefusal`], in words for that person; nothing was started.
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
            // Another press may have come between.
            if journal
                .entry(sequence)
                .is_none_or(|entry| entry.again != again || entry.offered.is_none())
            {
                return Err(AgainRefusal::Gone);
            }
            journal.again(sequence)
        };
        if !saving.done().await {
            // Its button works once there is room.
            journal.put_back(entry);
            tracing::error!(
                event = sequence,
                "cannot note in state/queue.md that an event is done again"
            );
            return Err(AgainRefusal::NotSaved);
        }
        tracing::info!(event = sequence, lane = %event.lane, ?person, "a person has an event done again");
        self.inner.lanes.queue.lock().restore(event);
        self.pump();
        Ok(Again::Started)
    }
}

/// What is left to do about an event when its lane goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// It is done again.
    Again,
    /// People are asked whether it is to be.
    Ask,
    /// It waits again, and its lane with it, until the paused backend works.
    Paused,
}

impl Inner {
    /// Brings back entries that were left open, oldest first.
    pub(super) fn take_up(&self, journal: &Journal, entries: Vec<Entry>) -> TakenUp {
        let mut taken = TakenUp::default();
        let mut queue = self.lanes.queue.lock();
        for entry in entries {
            let turn = |turn| self.turn_after_start(journal.entry(turn).as_ref());
            match entry.heard.map_or(Turn::Again, turn) {
                Turn::Again => {}
                _ if entry.answer.is_some() => {}
                Turn::GoesOn => {
                    // Over with the turn that took it in.
                    self.lanes.carry(entry.heard.unwrap_or_default(), entry.event);
                    continue;
                }
                Turn::Over => {
                    let _ = journal.finished(&entry.event, jiff::Timestamp::now().as_millisecond());
                    continue;
                }
                // As the answer of an event that is only delivered: once, whatever dies when.
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

    /// What the journal keeps of an event that the next life would take up.
    pub(crate) fn noted(&self, event: &Event) -> Option<(&Journal, Entry)> {
        let journal = self.parts.journal.as_ref().filter(|_| !event.of_one_life())?;
        Some((journal, journal.entry(event.sequence)?))
    }

    /// What becomes of an event whose agent was lost with whoever held it: the same as after a crash
    /// of the gateway. None: it has failed, nothing keeps it.
    pub(crate) fn orphaned(&self, event: &Event) -> Option<Left> {
        let (_, entry) = self.noted(event)?;
        match Turn::of(Some(&entry)) {
            Turn::Again => {
                tracing::warn!("the agent was lost; the turn begins again");
                Some(Left::Again)
            }
            Turn::Asked => Some(Left::Ask),
            Turn::Over | Turn::GoesOn => None,
        }
    }

    /// Asks people whether an event that the journal keeps is to be done again.
    pub(crate) async fn ask_about(&self, event: &Event, why: Why) {
        if let Some((journal, entry)) = self.noted(event) {
            self.offer(journal, &entry, why).await;
        }
    }

    /// The treatment of an event, from its entry in the journal.
    fn turn_of(&self, entry: Option<&Entry>) -> Turn {
        let goes_on = |entry: &&Entry| {
            entry.answer.is_none()
                && entry.offered.is_none()
                && self.links.continues(entry.event.sequence, &entry.event.lane)
        };
        entry.filter(goes_on).map_or_else(|| Turn::of(entry), |_| Turn::GoesOn)
    }

    /// Returns the treatment of an event by a process that did not see its turn. A turn that had
    /// begun is not simply repeated where its agent may have used a tool that nobody noted: a node
    /// that lost its place could not note it, and neither could a gateway that had ended before its
    /// agents did.
    fn turn_after_start(&self, entry: Option<&Entry>) -> Turn {
        let turn = self.turn_of(entry);
        let had_begun = entry.is_some_and(|entry| entry.started > 0);
        let may_have_used_a_tool = self.parts.router.is_some() || self.parts.unwatched_agents;
        if turn == Turn::Again && had_begun && may_have_used_a_tool { Turn::Asked } else { turn }
    }

    /// Asks people whether an event is to be done again, below what there is of its answer.
    pub(crate) async fn offer(&self, journal: &Journal, entry: &Entry, why: Why) {
        let (event, aside) = (&entry.event, why == Why::SetAside);
        let (channel, about) = place(event);
        let what = if about.is_some() { "this".to_owned() } else { self.excerpt(event) };
        let text = match why {
            Why::SetAside => {
                tracing::error!(event = event.sequence, lane = %event.lane, deaths = entry.started, "an event was running at every one of the gateway's last deaths; it is set aside");
                format!(
                    "I died {} times while I worked on {what}, so I have set it aside. (set aside)",
                    entry.started
                )
            }
            Why::Interrupted => {
                tracing::warn!(event = event.sequence, lane = %event.lane, "an event was interrupted after its agent had used a tool; people are asked");
                format!(
                    "I was interrupted while I worked on {what} and had already used a tool, so I have not simply begun again. (interrupted)"
                )
            }
            Why::Unknown => {
                tracing::warn!(event = event.sequence, lane = %event.lane, "an event was interrupted and its agent may have used a tool; people are asked");
                format!(
                    "I was interrupted while I worked on {what} and may have used a tool, so I have not simply begun again. (interrupted)"
                )
            }
            Why::Broke => format!(
                "Something inside me broke while I worked on {what}. My operator's log says what. (internal)"
            ),
        };
        let offer = Offer { id: id_of(event.sequence, entry.again), label: LABEL.to_owned() };
        let notice = Notice { channel, about, text, offer: Some(offer.clone()) };
        // What stands there must not look like an answer.
        let prior = self.durability.kept(event).prior_delivery(event);
        let posted = self.parts.outlet.give_up(event, notice, prior).await;
        if aside && channel.is_some() {
            let text = format!(
                "An event in {} was running when I died, {} times; I have set it aside. (set aside)",
                event.lane, entry.started
            );
            // Where there is no such channel, the log has it.
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

    /// The beginning of a prompt that cannot be pointed at, in one line.
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

/// The channel for notices about an event, and the message it came from.
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

/// Which event a button is about, and which attempt at it: an old button starts nothing twice.
fn id_of(sequence: Sequence, again: u32) -> String {
    format!("{sequence}-{again}")
}

fn read_id(id: &str) -> Option<(Sequence, u32)> {
    let (sequence, again) = id.split_once('-')?;
    Some((sequence.parse().ok()?, again.parse().ok()?))
}
