//! The traits through which the dispatcher reaches people in Discord or at the terminal.
//!
//! [`answer`] is the result of a turn, and [`limited`] the usage limit that ended it. [`messages`]
//! has the wording of refusals and failures, and [`handle`] shares a turn's reply between tasks.
//! [`question`], [`statement`] and [`excerpt`] present an agent's question.

pub(crate) mod answer;
mod clock_words;
pub(crate) mod excerpt;
pub(crate) mod handle;
pub(crate) mod limited;
pub(crate) mod messages;
pub(crate) mod question;
pub(crate) mod statement;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(crate) use self::answer::TurnAnswer;
use self::question::{OpenQuestion, Settlement};
use aetheel_model::access::LanePermissions;
use aetheel_model::agent::AgentEventKind;
use aetheel_model::event::{AttachedFile, Event};
use aetheel_model::fold::Transcript;
use aetheel_model::id::{ChannelId, MessageId, UserId};

/// Delivers answers, questions and notices to people.
#[async_trait]
pub trait Outlet: Send + Sync {
    /// Opens the reply when the turn of an event starts. Called once per event, on an async worker.
    /// Must not block.
    fn open(&self, event: &Event) -> Box<dyn Reply>;

    /// Opens the reply of an event that is in the journal. After a restart, the reply continues
    /// with the messages that previous processes posted.
    fn open_tracked(&self, event: &Event, prior: PriorDelivery) -> Box<dyn Reply> {
        let _ = prior;
        self.open(event)
    }

    /// Returns once this outlet is able to send an answer, whether or not the service would accept
    /// it. A health probe waits for this.
    async fn probe(&self) {}

    /// Fetches a file that was attached to a prompt.
    ///
    /// # Errors
    /// The reason, worded for the author. A file of more than `limit` bytes is an error too.
    async fn fetch(&self, attached: &AttachedFile, limit: u64) -> Result<Vec<u8>, String> {
        let _ = limit;
        Err(format!("{:?} cannot be fetched here", attached.name))
    }

    /// Returns the last messages before an event in its channel, oldest first, for an agent that
    /// does not remember them. At most [`RECAP_MESSAGES`]. Empty if they cannot be read within a
    /// few seconds.
    async fn recap(&self, event: &Event) -> Vec<RecapMessage> {
        let _ = event;
        Vec::new()
    }

    /// Returns the current permissions of a person in a channel.
    ///
    /// # Errors
    /// [`ChannelError`] if they cannot be checked. The caller must then permit nothing.
    async fn permissions(
        &self,
        user: UserId,
        channel: ChannelId,
    ) -> Result<LanePermissions, ChannelError> {
        let _ = (user, channel);
        Err(ChannelError("permissions cannot be checked here".to_owned()))
    }

    /// Returns the last messages of a channel, oldest first. The caller has checked the permissions
    /// of the person.
    ///
    /// # Errors
    /// [`ChannelError`] if the channel cannot be read.
    async fn read_channel(
        &self,
        channel: ChannelId,
        most: usize,
    ) -> Result<Vec<RecapMessage>, ChannelError> {
        let _ = (channel, most);
        Err(ChannelError("there are no channels here".to_owned()))
    }

    /// Posts a message that is not an answer.
    ///
    /// # Errors
    /// [`DeliveryError`] if nobody will see it. The outlet has logged the details.
    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        let _ = notice;
        Err(DeliveryError::Refused("there is no channel for notices here".to_owned()))
    }

    /// Posts a notice about a wait, unless it is open already. A previous process may have posted it.
    /// If the notice of another reason for the same wait is open, it is closed.
    ///
    /// # Errors
    /// See [`Outlet::notify`].
    async fn announce_wait(&self, wait: WaitTopic, notice: Notice) -> Result<(), DeliveryError> {
        let _ = wait;
        self.notify(notice).await
    }

    /// Removes the buttons of the open notice about a wait, and adds a line with the reason why the
    /// wait has ended. Does nothing if no notice is open. Returns at once. Best effort.
    fn end_wait(&self, topic: &str, line: &str) {
        let _ = (topic, line);
    }

    /// Opens the thread for an event and posts the prompt there. Repeated calls open only one
    /// thread.
    ///
    /// # Errors
    /// The reason, worded for the person who asked.
    async fn open_thread(
        &self,
        event: &Event,
        prior: PriorDelivery,
    ) -> Result<OpenedThread, String> {
        let _ = (event, prior);
        Err("There are no threads here.".to_owned())
    }

    /// Notifies people that a reply was given up, and marks its posted messages as not being the
    /// answer, including messages that are not recorded in `prior` and a command's own message that
    /// is still empty.
    ///
    /// # Errors
    /// See [`Outlet::notify`].
    async fn give_up_reply(
        &self,
        event: &Event,
        notice: Notice,
        prior: PriorDelivery,
    ) -> Result<(), DeliveryError> {
        let _ = (event, prior);
        self.notify(notice).await
    }

    /// Removes the marker of a waiting event that will not be answered. The caller informs people.
    /// Best effort.
    async fn remove_waiting_marker(&self, event: &Event) {
        let _ = event;
    }

    /// Sets the questions of the previous process that stay open because their turns continue. Each
    /// of them is then asked again under its id, or closed. Called before any new event arrives.
    /// Must not block.
    fn continue_questions(&self, ids: &[String]) {
        let _ = ids;
    }

    /// Closes a question that was to stay open, because its turn cannot continue. Returns at once.
    /// Best effort.
    fn close_question(&self, id: &str) {
        let _ = id;
    }

    /// Removes the button below the message of a failure, if it still exists, because the reply
    /// that the button offers was delivered. Best effort.
    async fn remove_offer_button(&self, channel: ChannelId, message: MessageId) {
        let _ = (channel, message);
    }
}

/// The reason why the chat platform gave no answer about a channel.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ChannelError(pub String);

/// The maximum number of messages in a recap.
pub const RECAP_MESSAGES: usize = 30;

/// A message of a conversation, as it was posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecapMessage {
    /// The name of the author; `None` for the bot's own messages.
    pub author: Option<String>,
    /// The text of the message.
    pub text: String,
}

/// A thread that was opened for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedThread {
    /// The id of the thread.
    pub thread: ChannelId,
    /// The id of the message in it that contains the prompt.
    pub first: MessageId,
}

/// The messages that previous attempts posted of an event's reply, and the callback that records
/// them. With it, an outlet finds its messages again instead of sending them twice.
#[derive(Clone)]
pub struct PriorDelivery {
    /// At most 17 letters, digits and dots, which identify this attempt at the event in every
    /// process. With keys that begin with it, a chat platform recognises a repeated request.
    pub stem: String,
    /// Ids of the messages that previous processes posted, in order.
    pub posted: Vec<MessageId>,
    /// Whether a previous process worked on the event. It may have posted more messages than it
    /// recorded.
    pub resumed: bool,
    /// Records the ids of all messages of the reply. Returns at once.
    pub note: Arc<NoteIds>,
}

/// Records message ids.
pub(super) type NoteIds = dyn Fn(&[MessageId]) + Send + Sync;

impl PriorDelivery {
    /// Creates the value for a reply that no later process continues.
    #[must_use]
    pub fn untracked() -> Self {
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

/// A message to people that is not an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The channel; `None` for the operator's channel.
    pub channel: Option<ChannelId>,
    /// The message that the notice refers to.
    pub about: Option<MessageId>,
    /// The text, without secrets. At most 1,900 characters.
    pub text: String,
    /// The buttons below the text, at most five.
    pub offers: Vec<Offer>,
}

impl Notice {
    /// Creates a notice for the operator's channel.
    pub(crate) fn for_operator(text: String, offers: impl IntoIterator<Item = Offer>) -> Self {
        Self { channel: None, about: None, text, offers: offers.into_iter().collect() }
    }
}

/// Identifies the notice about a wait, in every process. Both parts have only letters, digits and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WaitTopic {
    /// The event or the account that waits.
    pub topic: String,
    /// The reason. A new notice is posted when it changes.
    pub reason: String,
}

/// A button that runs an event again, delivers a lost reply, or decides something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The id that a press of the button returns. At most 64 letters, digits and `-`.
    pub id: String,
    /// The label of the button.
    pub label: String,
}

/// The reply to one event, from the start of its turn to its delivery.
#[async_trait]
pub trait Reply: Send {
    /// Shows an agent event. Called for every event, in order. Must not block; the outlet limits
    /// its own rate.
    fn update(&mut self, event: &AgentEventKind, transcript: &Transcript);

    /// Shows a question below the text so far. Must not block. If no person can see the question,
    /// the outlet dismisses it with `unseen`.
    fn ask(&mut self, question: &OpenQuestion, unseen: QuestionDismissal);

    /// Marks a question as closed, so that it no longer invites an answer. Must not block.
    fn question_settled(&mut self, id: &str, how: &Settlement);

    /// Continues the text below a message that people wrote to the running turn. Must not block.
    fn steered(&mut self) {}

    /// Continues the text below a question or a message from people, which a previous process
    /// posted after the text so far. Must not block.
    fn was_interrupted(&mut self) {}

    /// Delivers the complete answer and removes temporary parts such as drafts and the typing
    /// indicator. Waits without limit until the answer can be delivered. Later answers of the same
    /// channel wait behind it.
    ///
    /// # Errors
    /// [`DeliveryError`] if people will never see the answer. The outlet has logged the details.
    async fn finish(self: Box<Self>, answer: TurnAnswer) -> Result<(), DeliveryError>;
}

/// Dismisses a question that nobody can see. Dropping it has no effect.
pub struct QuestionDismissal(Box<dyn FnOnce() + Send>);

impl QuestionDismissal {
    /// Creates a value that calls `dismiss` when it is used.
    #[must_use]
    pub fn new(dismiss: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(dismiss))
    }

    /// Dismisses the question. The agent learns that nobody answered.
    pub fn dismiss(self) {
        (self.0)();
    }
}

impl std::fmt::Debug for QuestionDismissal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unseen")
    }
}

/// The reason why an answer was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The channel no longer exists.
    #[error("the channel of the answer no longer exists: {0}")]
    Gone(String),
    /// The service does not accept the answer.
    #[error("cannot deliver the answer: {0}")]
    Refused(String),
    /// This process no longer delivers the answer; the next process may.
    #[error("the answer is left to the next start: {0}")]
    Later(String),
}
