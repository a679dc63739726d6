//! An event before it is accepted.

use serde::{Deserialize, Serialize};

use super::{
    AgentRequest, AttachedFile, Event, EventKind, EventOrigin, Lane, PromptChoice, QuotedMessage,
    Sequence,
};
use crate::id::{ChannelId, UserId};

/// An event before it is accepted, also when it is sent to another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NewEvent {
    /// The kind of source that asks for it.
    pub kind: EventKind,
    /// The lane in which it must wait.
    pub lane: Lane,
    /// The origin, to which its answer is delivered.
    pub origin: EventOrigin,
    /// The name of the prompt's author, on one line, for channels with several users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The user who asked and may answer the agent's questions, or `None` if no user did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker: Option<UserId>,
    /// The text for the agent, verbatim.
    pub prompt: String,
    /// The channel of the lane's thread. Its settings apply if the thread has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ChannelId>,
    /// The files that came with the prompt or with the message that it quotes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<AttachedFile>,
    /// The message that the prompt replies to or forwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<QuotedMessage>,
    /// The request of the agent that wrote the prompt, or `None` if no agent did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_agent: Option<Box<AgentRequest>>,
    /// The agent and the model that the person chose for the prompt, or `None` for those of the
    /// lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Box<PromptChoice>>,
    /// The event of a person whose interrupted turn it continues. It takes the place of that event
    /// in its lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Sequence>,
    /// A key that identifies the cause of the event (`discord:…`, `cron:backup:…`). A second event
    /// with the same key is not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether a thread must be opened first, in which the event is answered. Until then the event
    /// waits in no lane.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_thread: bool,
    /// Whether it was written while the gateway could not receive it. Limits on the rate of prompts
    /// then do not apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    /// Whether it was written so long before it was accepted that its author is notified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

impl NewEvent {
    /// Makes an event without an author and attachments.
    #[must_use]
    pub fn new(
        kind: EventKind,
        lane: Lane,
        origin: EventOrigin,
        prompt: impl Into<String>,
    ) -> Self {
        let prompt = prompt.into();
        Self {
            kind,
            lane,
            origin,
            author: None,
            asker: None,
            prompt,
            parent: None,
            attached: Vec::new(),
            quoted: None,
            by_agent: None,
            choice: None,
            continues: None,
            key: None,
            opens_thread: false,
            missed: false,
            late: false,
        }
    }

    /// Returns the accepted event.
    #[must_use]
    pub fn accepted(self, sequence: Sequence, accepted_ms: i64) -> Event {
        Event { sequence, accepted_ms, request: Self { missed: false, ..self } }
    }
}
