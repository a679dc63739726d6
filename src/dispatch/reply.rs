//! The port behind which answers go to people: Discord or the terminal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::question::{OpenQuestion, Settlement};
use crate::agent::{EventKind, Usage};
use crate::event::{Attached, Event};
use crate::fold::Transcript;
use crate::plain::{clean_text, one_line};
use crate::redact::Redactor;

/// Where answers go.
#[async_trait]
pub trait Outlet: Send + Sync {
    /// An event's turn begins. Called once an event, on an async worker; must not block.
    fn open(&self, event: &Event) -> Box<dyn Reply>;

    /// The turn of an event that outlives the program begins, or begins once more after a restart:
    /// what earlier lives left of its reply is taken up again.
    fn open_kept(&self, event: &Event, traces: Traces) -> Box<dyn Reply> {
        let _ = traces;
        self.open(event)
    }

    /// Returns once an answer could go out now, however the other side is.
    async fn pulse(&self) {}

    /// Fetches a file that came with a prompt.
    ///
    /// # Errors
    /// Why there is none, in words for the person who sent it; also when it is larger than `limit`
    /// bytes.
    async fn fetch(&self, attached: &Attached, limit: u64) -> Result<Vec<u8>, String> {
        let _ = limit;
        Err(format!("{:?} cannot be fetched here", attached.name))
    }

    /// Tells people something beside any answer.
    ///
    /// # Errors
    /// [`DeliveryError`] when nobody will see it; the outlet has logged the details.
    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        let _ = notice;
        Err(DeliveryError::Refused("there is no place for notices here".to_owned()))
    }

    /// Opens the thread that an event asks for, once however often it is called, and tells there
    /// what was asked.
    ///
    /// # Errors
    /// Why there is none, in words for the person who asked.
    async fn open_thread(&self, event: &Event, traces: Traces) -> Result<Opened, String> {
        let _ = (event, traces);
        Err("There are no threads here.".to_owned())
    }

    /// Tells people that a reply was given up, and says of what there is of it, noted or not, that
    /// it is not the answer; of a command's own message too that nothing was said in.
    ///
    /// # Errors
    /// As [`Outlet::notify`].
    async fn give_up(
        &self,
        event: &Event,
        notice: Notice,
        traces: Traces,
    ) -> Result<(), DeliveryError> {
        let _ = (event, traces);
        self.notify(notice).await
    }

    /// An event that waited will have no answer, and people are told so elsewhere: what shows that
    /// it waits goes. Best effort.
    async fn put_away(&self, event: &Event) {
        let _ = event;
    }

    /// The reply that a failure's button offers was delivered: the button goes, if it is still
    /// there. Best effort.
    async fn settle_offer(&self, channel: u64, message: u64) {
        let _ = (channel, message);
    }
}

/// A thread that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Itself.
    pub thread: u64,
    /// The message in it that says what was asked.
    pub first: u64,
}

/// What an event's reply left behind, and where it is noted: by it an outlet finds its messages
/// again instead of sending them twice.
#[derive(Clone)]
pub struct Traces {
    /// At most 17 letters, digits and dots, the same for every life of this attempt at the event
    /// and for nothing else.
    pub stem: String,
    /// Ids of the messages that earlier lives posted, in order.
    pub posted: Vec<u64>,
    /// There was an earlier life: it may have posted more than is noted.
    pub resumed: bool,
    /// Notes the ids of all messages of the reply. Returns at once.
    pub note: Arc<Note>,
}

/// Notes ids of messages.
pub type Note = dyn Fn(&[u64]) + Send + Sync;

impl Traces {
    /// Makes those of a reply that no later life will find again.
    #[must_use]
    pub fn unkept() -> Self {
        let mut stem = uuid::Uuid::new_v4().simple().to_string();
        stem.truncate(17);
        Self { stem, posted: Vec::new(), resumed: false, note: Arc::new(|_| {}) }
    }
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces")
            .field("stem", &self.stem)
            .field("posted", &self.posted)
            .finish_non_exhaustive()
    }
}

/// Something people are told beside any answer.
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

/// A button that brings an event, or a lost reply, back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Which event: comes back with the press. At most 64 letters, digits and `-`.
    pub id: String,
    /// What the button says.
    pub label: String,
}

/// The answer to one event while it takes shape.
#[async_trait]
pub trait Reply: Send {
    /// Something happened. Called for every agent-event, in order; must return at once (pacing is
    /// the outlet's affair).
    fn update(&mut self, event: &EventKind, transcript: &Transcript);

    /// The agent asks people: shows the question below what was told so far. Must return at once.
    /// Whoever can show it to nobody says so with `unseen`.
    fn ask(&mut self, question: &OpenQuestion, unseen: Unseen);

    /// A question that was shown is over: nothing about it invites an answer any more. Must return
    /// at once.
    fn settled(&mut self, id: &str, how: &Settlement);

    /// People said something to the turn while it ran: what it says from now on belongs below that.
    /// Must return at once.
    fn steered(&mut self) {}

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

    /// Dismisses the question: the agent is told that nobody answered.
    pub fn dismiss(self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Unseen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unseen")
    }
}

/// A file of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AnswerFile {
    /// Plain, with an ending.
    pub name: String,
    /// Where it is kept until it is delivered.
    pub path: PathBuf,
}

/// What a turn came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Answer {
    /// The agent's text, exactly; with a failure, what there was of it.
    pub text: String,
    /// What went wrong, for people: short, its kind named, with the correlation id, no internals.
    pub failure: Option<String>,
    /// Things the user should know beside the answer, one line each.
    pub notices: Vec<String>,
    /// Name of the backend that answered.
    pub backend: String,
    /// The model that answered: what the agent says, else what was asked of it.
    pub model: Option<String>,
    /// More about a failure, for the operator at the terminal only; never shown in Discord.
    #[serde(skip)]
    pub detail: Option<String>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// From the start of the turn to its end.
    pub took: Duration,
    /// What the agent made beside text, below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AnswerFile>,
    /// A button below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    /// The user who is to hear of it, because it took long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping: Option<u64>,
}

impl Answer {
    /// Returns it without secrets, and without anything that moves a cursor, hides or reorders what
    /// is read.
    #[must_use]
    pub fn cleaned(self, redactor: &Redactor) -> Self {
        let plain = |text: String| redactor.clean(clean_text(&text).into_owned());
        Self {
            text: plain(self.text),
            failure: self.failure.map(plain),
            notices: self.notices.into_iter().map(plain).collect(),
            detail: self.detail.map(plain),
            backend: one_line(&self.backend),
            model: self.model.map(|model| redactor.clean(one_line(&model))),
            ..self
        }
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
