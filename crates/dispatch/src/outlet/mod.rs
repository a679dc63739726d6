//! The port behind which answers go to people, Discord or the terminal, and everything that
//! crosses it.
//!
//! [`answer`] is the outcome of a turn, [`question`], [`statement`] and [`excerpt`] an agent's question
//! as people see it, [`messages`] the wording of refusals and failures, [`handle`] the reply of a turn that
//! several tasks share.

pub(crate) mod answer;
pub(crate) mod excerpt;
pub(crate) mod handle;
pub(crate) mod messages;
pub(crate) mod question;
pub(crate) mod statement;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(crate) use self::answer::Answer;
use self::question::{OpenQuestion, Settlement};
use aetheel_model::agent::EventKind;
use aetheel_model::event::{Attached, Event};
use aetheel_model::fold::Transcript;

/// Delivers answers to people.
#[async_trait]
pub trait Outlet: Send + Sync {
    /// An event's turn begins. Called once an event, on an async worker; must not block.
    fn open(&self, event: &Event) -> Box<dyn Reply>;

    /// The turn of an event that outlives the program begins, or begins once more after a restart:
    /// what earlier lives left of its reply is taken up again.
    fn open_kept(&self, event: &Event, prior: PriorDelivery) -> Box<dyn Reply> {
        let _ = prior;
        self.open(event)
    }

    /// Returns once an answer could go out now, whether or not the other side takes it: what a
    /// health probe waits for.
    async fn probe(&self) {}

    /// Fetches a file that came with a prompt.
    ///
    /// # Errors
    /// Why there is none, in words for the person who sent it; also when it is larger than `limit`
    /// bytes.
    async fn fetch(&self, attached: &Attached, limit: u64) -> Result<Vec<u8>, String> {
        let _ = limit;
        Err(format!("{:?} cannot be fetched here", attached.name))
    }

    /// The last messages that stand before an event where it was asked, oldest first and without its
    /// own: for an agent that has no memory of them. At most [`RECAP_MESSAGES`]; none where they
    /// cannot be had within a few seconds.
    async fn recap(&self, event: &Event) -> Vec<Said> {
        let _ = event;
        Vec::new()
    }

    /// Posts a message that is no answer.
    ///
    /// # Errors
    /// [`DeliveryError`] when nobody will see it; the outlet has logged the details.
    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        let _ = notice;
        Err(DeliveryError::Refused("there is no place for notices here".to_owned()))
    }

    /// Opens the thread that an event asks for, once however often it is called, and posts there
    /// what was asked.
    ///
    /// # Errors
    /// Why there is none, in words for the person who asked.
    async fn open_thread(&self, event: &Event, prior: PriorDelivery) -> Result<Opened, String> {
        let _ = (event, prior);
        Err("There are no threads here.".to_owned())
    }

    /// Tells people that a reply was given up, and marks what was posted of it, noted or not, as
    /// not being the answer; also a command's own message that is still empty.
    ///
    /// # Errors
    /// As [`Outlet::notify`].
    async fn give_up(
        &self,
        event: &Event,
        notice: Notice,
        prior: PriorDelivery,
    ) -> Result<(), DeliveryError> {
        let _ = (event, prior);
        self.notify(notice).await
    }

    /// Removes what shows that an event waits: it will have no answer, and people learn so
    /// elsewhere. Best effort.
    async fn put_away(&self, event: &Event) {
        let _ = event;
    }

    /// Says which questions of an earlier life stay open because their turns go on: each is asked
    /// again under its id, or closed. Told before anything new is heard. Must return at once.
    fn continue_questions(&self, ids: &[String]) {
        let _ = ids;
    }

    /// Closes a question of an earlier life that was to stay open: its turn could not go on.
    /// Returns at once. Best effort.
    fn close_question(&self, id: &str) {
        let _ = id;
    }

    /// Removes the button of a failure, if it is still there: the reply it offers was delivered.
    /// Best effort.
    async fn settle_offer(&self, channel: u64, message: u64) {
        let _ = (channel, message);
    }
}

/// Most messages of a recap.
pub const RECAP_MESSAGES: usize = 30;

/// A message of a conversation, as it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The name of its author; none: we wrote it.
    pub author: Option<String>,
    /// Its text.
    pub text: String,
}

/// A thread that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The id of the thread.
    pub thread: u64,
    /// The message in it that says what was asked.
    pub first: u64,
}

/// The messages that earlier attempts posted of an event's reply, and where they are noted: so an
/// outlet finds its messages again instead of sending them twice.
#[derive(Clone)]
pub struct PriorDelivery {
    /// At most 17 letters, digits and dots, the same for every life of this attempt at the event
    /// and for nothing else.
    pub stem: String,
    /// Ids of the messages that earlier lives posted, in order.
    pub posted: Vec<u64>,
    /// An earlier life of the gateway worked on it, and may have posted more than is noted.
    pub resumed: bool,
    /// Notes the ids of all messages of the reply. Returns at once.
    pub note: Arc<Note>,
}

/// Notes ids of messages.
pub(super) type Note = dyn Fn(&[u64]) + Send + Sync;

impl PriorDelivery {
    /// Makes that of a reply that no later life will find again.
    #[must_use]
    pub fn unkept() -> Self {
        let mut stem = uuid::Uuid::new_v4().simple().to_string();
        stem.truncate(17);
        Self { stem, posted: Vec::new(), resumed: false, note: Arc::new(|_| {}) }
    }
}

impl std::fmt::Debug for PriorDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PriorDelivery")
            .field("stem", &self.stem)
            .field("posted", &self.posted)
            .finish_non_exhaustive()
    }
}

/// A message to people that is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Where; none: the operator's output channel.
    pub channel: Option<u64>,
    /// The message it is about.
    pub about: Option<u64>,
    /// Without secrets, at most 1,900 characters.
    pub text: String,
    /// A button below it.
    pub offer: Option<Offer>,
}

impl Notice {
    /// Makes one for the operator's output channel.
    pub(crate) fn for_operator(text: String, offer: Option<Offer>) -> Self {
        Self { channel: None, about: None, text, offer }
    }
}

/// A button that brings an event, or a lost reply, back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Which event: comes back with the press. At most 64 letters, digits and `-`.
    pub id: String,
    /// The label of the button.
    pub label: String,
}

/// The answer to one event while it takes shape.
#[async_trait]
pub trait Reply: Send {
    /// Something happened. Called for every agent-event, in order; must return at once (pacing is
    /// the outlet's affair).
    fn update(&mut self, event: &EventKind, transcript: &Transcript);

    /// The agent asks people: shows the question below the text so far. Must return at once.
    /// Whoever can show it to nobody says so with `unseen`.
    fn ask(&mut self, question: &OpenQuestion, unseen: Unseen);

    /// A question that was shown is over: nothing about it invites an answer any more. Must return
    /// at once.
    fn settled(&mut self, id: &str, how: &Settlement);

    /// People wrote to the turn while it ran: its further text belongs below that.
    /// Must return at once.
    fn steered(&mut self) {}

    /// In an earlier life of the gateway something stood below the text so far: a question, or what
    /// people wrote. Must return at once.
    fn stood_above(&mut self) {}

    /// The turn is over: delivers the answer whole and removes what was only for the time being
    /// (typing, drafts). Takes as long as it takes: where it cannot be delivered now it waits until
    /// it can, and answers of the same place that are finished later wait behind it.
    ///
    /// # Errors
    /// [`DeliveryError`] when people never will see it; the outlet has logged the details.
    async fn finish(self: Box<Self>, answer: Answer) -> Result<(), DeliveryError>;
}

/// Dismisses a question that nobody will see. Dropping it does nothing.
pub struct Unseen(Box<dyn FnOnce() + Send>);

impl Unseen {
    /// Makes one that calls `dismiss` when used.
    #[must_use]
    pub fn new(dismiss: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(dismiss))
    }

    /// Dismisses the question: the agent learns that nobody answered.
    pub fn dismiss(self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Unseen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unseen")
    }
}

/// An answer that could not be delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The place it was for does not exist any more.
    #[error("the place of the answer is gone: {0}")]
    Gone(String),
    /// It is not taken there as it is.
    #[error("cannot deliver the answer: {0}")]
    Refused(String),
    /// This life of the program does not deliver it any more; the next one may.
    #[error("the answer is left to the next start: {0}")]
    Later(String),
}
