//! The events that enter the queue, and the lanes in which they wait.

mod new_event;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

pub use self::new_event::NewEvent;
use crate::agent::Safety;
use crate::id::{ChannelId, MessageId};

/// Position in the order of acceptance. It increases while the program runs.
pub type Sequence = u64;

/// The start of the numbers of events that are not saved. Numbers of saved events are lower.
pub const UNSAVED_START: Sequence = u64::MAX / 2;

/// Number of bits of a sequence number that count within one block. Machines that share a bot
/// assign numbers from blocks of their own; the higher bits are the number of the block.
pub const BLOCK_BITS: u32 = 32;

/// Returns whether a number is in the block that begins with `first`. If `first` is zero, the
/// gateway serves alone and all numbers are its own.
#[must_use]
pub fn is_in_block(number: Sequence, first: Sequence) -> bool {
    first == 0 || number >> BLOCK_BITS == first >> BLOCK_BITS
}

/// The queue in which an event waits. Events of one lane run in strict order; lanes run in
/// parallel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// The conversation at the terminal.
    Console,
    /// A channel or thread of a chat platform.
    Channel(ChannelId),
    /// One heartbeat check, by name.
    Heartbeat(String),
    /// One cron job, by name.
    Cron(String),
    /// One hook, by name.
    Hook(String),
    /// One webhook, by name.
    Webhook(String),
}

impl Lane {
    /// Returns whether its events never move to another machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Console | Self::Hook(_))
    }

    /// Returns the channel or thread, or `None` for a lane of another kind.
    #[must_use]
    pub fn channel(&self) -> Option<ChannelId> {
        match self {
            Self::Channel(channel) => Some(*channel),
            _ => None,
        }
    }
}

/// Selects lanes.
pub type LaneFilter = Arc<dyn Fn(&Lane) -> bool + Send + Sync>;

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Console => f.write_str("console"),
            Self::Channel(id) => write!(f, "channel:{id}"),
            Self::Heartbeat(name) => write!(f, "heartbeat:{name}"),
            Self::Cron(name) => write!(f, "cron:{name}"),
            Self::Hook(name) => write!(f, "hook:{name}"),
            Self::Webhook(name) => write!(f, "webhook:{name}"),
        }
    }
}

/// The reason why a text is not a [`Lane`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// The text is neither `console` nor a kind and a name.
    #[error("{0:?} is not a lane")]
    Form(String),
    /// The text ends after the kind.
    #[error("{0:?} has no name")]
    NameMissing(String),
    /// The name of a channel is not an id.
    #[error("{0:?} is not a channel id")]
    InvalidChannel(String),
    /// There are no lanes of this kind.
    #[error("{0:?} is not a kind of lane")]
    UnknownKind(String),
}

impl std::str::FromStr for Lane {
    type Err = LaneError;

    /// Parses the text that `Display` writes.
    fn from_str(text: &str) -> Result<Self, LaneError> {
        if text == "console" {
            return Ok(Self::Console);
        }
        let (kind, name) = text.split_once(':').ok_or_else(|| LaneError::Form(text.to_owned()))?;
        let named = |make: fn(String) -> Self| {
            if name.is_empty() {
                Err(LaneError::NameMissing(text.to_owned()))
            } else {
                Ok(make(name.to_owned()))
            }
        };
        match kind {
            "channel" => name
                .parse()
                .map(Self::Channel)
                .map_err(|_| LaneError::InvalidChannel(name.to_owned())),
            "heartbeat" => named(Self::Heartbeat),
            "cron" => named(Self::Cron),
            "hook" => named(Self::Hook),
            "webhook" => named(Self::Webhook),
            _ => Err(LaneError::UnknownKind(kind.to_owned())),
        }
    }
}

/// The kind of source that asked for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A person wrote it, on a chat platform or at the terminal.
    Message,
    /// A check of `heartbeat.md` was due.
    Heartbeat,
    /// A cron job of `agents.md` was due.
    Cron,
    /// The gateway itself, for example at startup or shutdown.
    Hook,
    /// Another system called one of the webhooks.
    Webhook,
    /// An agent asked for it with a tool of the host.
    Agent,
}

/// The origin of an event, to which its answer is delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventOrigin {
    /// A line typed at the terminal.
    Console,
    /// A message that a person wrote on a chat platform.
    Message {
        /// The channel or thread that contains it.
        channel: ChannelId,
        /// The id of the message.
        message: MessageId,
    },
    /// A command that a person used on a chat platform.
    Interaction {
        /// The channel or thread it was used in.
        channel: ChannelId,
        /// The id of this use of the command.
        interaction: MessageId,
        /// The token for editing the command's own message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pass: Option<CommandToken>,
    },
    /// The gateway itself: a heartbeat, a cron job, a hook or a webhook.
    Internal {
        /// The channel for the answer, or `None` for the operator's output channel, if there is
        /// one.
        channel: Option<ChannelId>,
    },
}

/// The token of a slash command. It is valid for the command's own message for fifteen minutes.
/// `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandToken(pub String);

impl fmt::Debug for CommandToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass")
    }
}

/// A file that came with a prompt. Its content is downloaded when the turn begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AttachedFile {
    /// The sender's name of the file, which is shown but never used as a path.
    pub name: String,
    /// The media type that the sender claims, for example `image/png`.
    pub media_type: Option<String>,
    /// Its announced size in bytes.
    pub size: u64,
    /// The URL or path from which the content is downloaded.
    pub source: String,
}

/// The message that a prompt replies to or forwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QuotedMessage {
    /// The name of its author, or `None` if it was forwarded, because Discord does not name the
    /// author then.
    pub author: Option<String>,
    /// The text of the message.
    pub text: String,
}

/// The reason why an agent asked for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentCause {
    /// It handed work over.
    HandOff,
    /// It asked for one turn at a later time.
    Reminder,
    /// It asked for turns at the times of a cron expression.
    Schedule,
    /// It ended its turn in order to continue later.
    Sleep,
}

/// The turn in which an agent asked for an event, and the limits of what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentRequest {
    /// The reason.
    pub cause: AgentCause,
    /// The lane of that turn.
    pub from: Lane,
    /// The number of hand-offs since a person asked.
    #[serde(default)]
    pub hops: u32,
    /// The number of times in a row that the work was continued after a sleep.
    #[serde(default)]
    pub naps: u32,
    /// The backend that answers, or `None` for the one of the lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The rights of that turn, which this event must not exceed, or `None` if it has the rights of
    /// its lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<AgentRights>,
}

/// The rights of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgentRights {
    /// The level up to which the agent acted without asking.
    pub safety: Safety,
    /// Whether it was only allowed to plan.
    pub planning: bool,
    /// The names of the host's tools that it was offered.
    pub tools: Vec<String>,
}

/// The agent and the model that a person chose for one prompt, or for the conversation in the thread
/// that the prompt opens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PromptChoice {
    /// The backend, or `None` for the one of the lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The model, or `None` for the one of the lane and the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A place in the order of a lane: that of an event, or the same place for an event that continues
/// its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePlace {
    /// The event that was accepted in this place.
    pub of: Sequence,
    /// The event that has the place.
    pub sequence: Sequence,
}

/// An accepted request for a turn. Its fields are also those of the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// Position in the order of acceptance.
    pub sequence: Sequence,
    /// When it was accepted, milliseconds since 1970.
    pub accepted_ms: i64,
    /// The request. [`NewEvent::missed`] is false, and [`NewEvent::opens_thread`] once the thread
    /// exists.
    #[serde(flatten)]
    pub request: NewEvent,
}

impl Deref for Event {
    type Target = NewEvent;

    fn deref(&self) -> &NewEvent {
        &self.request
    }
}

impl Serialize for Event {
    /// Writes the fields in the order and the form of the journals of all versions, in which some
    /// fields are written also if they are empty.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("sequence", &self.sequence)?;
        map.serialize_entry("accepted-ms", &self.accepted_ms)?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("lane", &self.lane)?;
        map.serialize_entry("origin", &self.origin)?;
        map.serialize_entry("author", &self.author)?;
        map.serialize_entry("asker", &self.asker)?;
        map.serialize_entry("prompt", &self.prompt)?;
        map.serialize_entry("parent", &self.parent)?;
        map.serialize_entry("attached", &self.attached)?;
        serialize_known(&mut map, "quoted", self.quoted.as_ref())?;
        serialize_known(&mut map, "by-agent", self.by_agent.as_ref())?;
        serialize_known(&mut map, "choice", self.choice.as_ref())?;
        serialize_known(&mut map, "continues", self.continues.as_ref())?;
        map.serialize_entry("key", &self.key)?;
        serialize_known(&mut map, "opens-thread", Some(&true).filter(|_| self.opens_thread))?;
        serialize_known(&mut map, "late", Some(&true).filter(|_| self.late))?;
        map.end()
    }
}

/// Writes an entry if it has a value.
fn serialize_known<M: SerializeMap>(
    map: &mut M,
    key: &str,
    value: Option<&impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

impl Event {
    /// Returns the place of the event in the order of its lane.
    #[must_use]
    pub fn place(&self) -> QueuePlace {
        QueuePlace { of: self.continues.unwrap_or(self.sequence), sequence: self.sequence }
    }

    /// Returns whether the event ends with this gateway process, so that the next process does not
    /// continue it. An event with a key happens only once in all processes, such as the
    /// instructions of the first start.
    #[must_use]
    pub fn ends_with_process(&self) -> bool {
        matches!(self.lane, Lane::Hook(_)) && self.key.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::UserId;

    #[test]
    fn a_lane_is_parsed_back_from_its_text() {
        for lane in [
            Lane::Console,
            Lane::Channel(ChannelId::discord(7)),
            Lane::Cron("a:b c".to_owned()),
            Lane::Webhook("x".to_owned()),
        ] {
            assert_eq!(lane.to_string().parse::<Lane>(), Ok(lane));
        }
        for bad in ["", "channel:x", "cron:", "nonsense:1", "channel"] {
            assert!(bad.parse::<Lane>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn ids_are_written_as_before_and_read_with_their_platform() {
        let lane = Lane::Channel(ChannelId::discord(7));
        assert_eq!(lane.to_string(), "channel:7");
        assert_eq!("channel:discord:7".parse(), Ok(lane.clone()));
        let origin =
            EventOrigin::Message { channel: ChannelId::discord(7), message: MessageId::discord(8) };
        let event = NewEvent {
            asker: Some(UserId::discord(9)),
            parent: Some(ChannelId::discord(10)),
            ..NewEvent::new(EventKind::Message, lane, origin, "hello")
        };
        let old = r#"{"kind":"message","lane":{"channel":7},"origin":{"message":{"channel":7,"message":8}},"asker":9,"prompt":"hello","parent":10}"#;
        assert_eq!(serde_json::to_string(&event).expect("no map"), old);
        let named = old.replace(":7", r#":"discord:7""#).replace(":9", r#":"discord:9""#);
        for text in [old, &named] {
            assert_eq!(serde_json::from_str::<NewEvent>(text).expect("an event"), event);
        }
        let foreign = old.replace(r#""lane":{"channel":7}"#, r#""lane":{"channel":"slack:7"}"#);
        let error = serde_json::from_str::<NewEvent>(&foreign).expect_err("unknown platform");
        assert!(error.to_string().contains("chat platform"), "{error}");
        let accepted = event.accepted(3, 4);
        let journal = r#"{"sequence":3,"accepted-ms":4,"kind":"message","lane":{"channel":7},"origin":{"message":{"channel":7,"message":8}},"author":null,"asker":9,"prompt":"hello","parent":10,"attached":[],"key":null}"#;
        assert_eq!(serde_json::to_string(&accepted).expect("no map"), journal);
        assert_eq!(serde_json::from_str::<Event>(journal).expect("an event"), accepted);
        let error = "channel:slack:7".parse::<Lane>().expect_err("unknown platform");
        assert_eq!(error.to_string(), r#""slack:7" is not a channel id"#);
    }
}
