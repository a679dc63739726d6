//! The events that enter the queue, and the lanes they wait in.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Position in the order of acceptance; increasing over the life of the program.
pub type Sequence = u64;

/// Where the numbers of events begin that nothing keeps; no other is as high.
pub const ASIDE: Sequence = u64::MAX / 2;

/// Bits of a number that count within one block. Several machines that share a bot give numbers of
/// blocks of their own; the bits above these are the block.
pub const BLOCK_BITS: u32 = 32;

/// Whether a number is of the block that begins with `first`; zero: this gateway serves alone, and
/// all numbers are its own.
#[must_use]
pub fn is_of_block(number: Sequence, first: Sequence) -> bool {
    first == 0 || number >> BLOCK_BITS == first >> BLOCK_BITS
}

/// The ordered line an event waits in. Within one, strict order; lanes run side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// The conversation at the terminal.
    Console,
    /// A Discord channel or thread.
    Channel(u64),
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
    /// Whether what happens in it never goes to another machine.
    #[must_use]
    pub fn stays(&self) -> bool {
        matches!(self, Self::Console | Self::Hook(_))
    }
}

/// Tells which lanes are meant.
pub type Lanes = Arc<dyn Fn(&Lane) -> bool + Send + Sync>;

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

impl std::str::FromStr for Lane {
    type Err = String;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "console" {
            return Ok(Self::Console);
        }
        let (kind, name) = text.split_once(':').ok_or_else(|| format!("{text:?} is not a lane"))?;
        let named = |make: fn(String) -> Self| {
            if name.is_empty() {
                Err(format!("{text:?} has no name"))
            } else {
                Ok(make(name.to_owned()))
            }
        };
        match kind {
            "channel" => {
                name.parse().map(Self::Channel).map_err(|_| format!("{name:?} is not a channel id"))
            }
            "heartbeat" => named(Self::Heartbeat),
            "cron" => named(Self::Cron),
            "hook" => named(Self::Hook),
            "webhook" => named(Self::Webhook),
            _ => Err(format!("{kind:?} is not a kind of lane")),
        }
    }
}

/// The kind of thing that asked for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A person wrote it, in Discord or at the terminal.
    Message,
    /// A timer of `heartbeat.md`.
    Heartbeat,
    /// A cron job of `agents.md` came round.
    Cron,
    /// The gateway's own life: startup, shutdown.
    Hook,
    /// Another system called one of the webhooks.
    Webhook,
}

/// Where an event came from, so that its answer finds the way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A line typed at the terminal.
    Console,
    /// A message that somebody wrote in Discord.
    Message {
        /// The channel or thread it stands in.
        channel: u64,
        /// The Discord id of the message.
        message: u64,
    },
    /// A Discord slash command.
    Interaction {
        /// The channel or thread it was used in.
        channel: u64,
        /// The Discord id of the interaction.
        interaction: u64,
        /// The way back to the command's own message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pass: Option<Pass>,
    },
    /// The gateway itself: a heartbeat, a cron job, a hook or a webhook.
    Internal {
        /// Where the answer goes; none: the operator's output channel, if there is one.
        channel: Option<u64>,
    },
}

/// The token of a slash command: good for its own message, for fifteen minutes. Not shown by
/// `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pass(pub String);

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass")
    }
}

/// A file that came with a prompt; its bytes are fetched when its turn begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Attached {
    /// The sender's name of it: shown, never used as a path.
    pub name: String,
    /// The type its sender claims, for example `image/png`.
    pub media_type: Option<String>,
    /// Its size in bytes, as announced.
    pub size: u64,
    /// Where the outlet finds it.
    pub source: String,
}

/// The message that a prompt replies to or forwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quoted {
    /// The name of its author; none: forwarded, and Discord does not say who wrote it.
    pub author: Option<String>,
    /// The text of the message.
    pub text: String,
}

/// Something to do a turn for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// Position in the order of acceptance.
    pub sequence: Sequence,
    /// When it was accepted, milliseconds since 1970.
    pub accepted_ms: i64,
    /// The kind of thing that asked.
    pub kind: EventKind,
    /// The lane it waits in.
    pub lane: Lane,
    /// Where its answer goes.
    pub origin: Origin,
    /// The name of the prompt's author, for multi-user channels; a single line.
    pub author: Option<String>,
    /// The Discord user who asked and may answer the agent's questions; none: nobody there.
    #[serde(default)]
    pub asker: Option<u64>,
    /// The text for the agent, verbatim.
    pub prompt: String,
    /// The channel the lane's thread belongs to, as in [`NewEvent::parent`].
    #[serde(default)]
    pub parent: Option<u64>,
    /// The files that came with it, as in [`NewEvent::attached`].
    #[serde(default)]
    pub attached: Vec<Attached>,
    /// The message it replies to or forwards, as in [`NewEvent::quoted`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quoted>,
    /// The same for the same thing happening twice, as in [`NewEvent::key`].
    #[serde(default)]
    pub key: Option<String>,
    /// See [`NewEvent::opens_thread`]; no longer, once there is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_thread: bool,
    /// Whether its author is told that it was taken late, as in [`NewEvent::late`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

impl Event {
    /// Whether it is about one life of the gateway: the next one does not take it up again. An
    /// event with a key happens once in all lives, as the instructions of the first start do.
    #[must_use]
    pub fn of_one_life(&self) -> bool {
        matches!(self.lane, Lane::Hook(_)) && self.key.is_none()
    }
}

/// An event before it was accepted, as it also goes from one machine to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NewEvent {
    /// The kind of thing that asks, as in [`Event::kind`].
    pub kind: EventKind,
    /// The lane it is to wait in, as in [`Event::lane`].
    pub lane: Lane,
    /// Where its answer goes, as in [`Event::origin`].
    pub origin: Origin,
    /// The name of the prompt's author, as in [`Event::author`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The user who may answer questions, as in [`Event::asker`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker: Option<u64>,
    /// The text for the agent, as in [`Event::prompt`].
    pub prompt: String,
    /// The channel that the lane's thread belongs to, whose settings hold where the thread has
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Files that came with the prompt, or with what it replies to or forwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<Attached>,
    /// The message that the prompt replies to or forwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quoted>,
    /// The same for the same thing happening twice (`discord:…`, `cron:backup:…`): a second one is
    /// not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A thread is opened first, and it is answered there. Until then it waits in no lane.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_thread: bool,
    /// It was written while nobody could take it: how fast its author may ask is no matter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    /// It was written so long before it could be taken that its author is told so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

impl NewEvent {
    /// Makes one that nobody in particular asked for, with nothing attached.
    #[must_use]
    pub fn new(kind: EventKind, lane: Lane, origin: Origin, prompt: impl Into<String>) -> Self {
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
            key: None,
            opens_thread: false,
            missed: false,
            late: false,
        }
    }

    /// Returns it as it was accepted.
    #[must_use]
    pub fn accepted(self, sequence: Sequence, accepted_ms: i64) -> Event {
        let Self {
            kind,
            lane,
            origin,
            author,
            asker,
            prompt,
            parent,
            attached,
            quoted,
            key,
            opens_thread,
            missed: _,
            late,
        } = self;
        Event {
            sequence,
            accepted_ms,
            kind,
            lane,
            origin,
            author,
            asker,
            prompt,
            parent,
            attached,
            quoted,
            key,
            opens_thread,
            late,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_reads_back_what_it_writes() {
        for lane in [
            Lane::Console,
            Lane::Channel(7),
            Lane::Cron("a:b c".to_owned()),
            Lane::Webhook("x".to_owned()),
        ] {
            assert_eq!(lane.to_string().parse::<Lane>(), Ok(lane));
        }
        for bad in ["", "channel:x", "cron:", "nonsense:1", "channel"] {
            assert!(bad.parse::<Lane>().is_err(), "{bad:?} was taken");
        }
    }
}
