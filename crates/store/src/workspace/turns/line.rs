//! The line that is stored for a turn.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use aetheel_model::agent::Usage;
use aetheel_model::budget::{BudgetSubject, SpentAmounts, SpentTurn};
use aetheel_model::event::{EventKind, Lane, Sequence};
use aetheel_model::id::{ChannelId, MessageId, UserId};
use aetheel_model::plain::{cut, short_line};

/// Maximum number of stored characters of a prompt.
pub const ASKED_LIMIT: usize = 2_000;
/// Maximum number of stored characters of an answer.
pub const ANSWERED_LIMIT: usize = 4_000;
/// Maximum number of models that are stored for a turn, and maximum length of a name in characters.
const MAX_MODELS: usize = 20;
const NAME_LIMIT: usize = 100;

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnStatus {
    /// The agent completed it.
    Done,
    /// A person or the gateway's shutdown stopped it.
    Stopped,
    /// It failed. The word is the reason, such as `timed-out` or `authentication`.
    Failed(String),
}

impl fmt::Display for TurnStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Stopped => f.write_str("stopped"),
            Self::Failed(word) => write!(f, "failed: {word}"),
        }
    }
}

/// A turn that has ended. Its texts contain no secrets and no control or formatting characters, and
/// are cut to [`ASKED_LIMIT`] and [`ANSWERED_LIMIT`] characters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TurnLine {
    /// When it ended.
    #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
    pub ended: Timestamp,
    /// Milliseconds from its beginning to its end.
    pub took_ms: u64,
    /// Its correlation id.
    pub turn: String,
    /// The number of its event.
    pub event: Sequence,
    /// The lane it ran in. The turn of a hook that ran around another turn has the lane of the
    /// hook.
    #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
    pub lane: Lane,
    /// The channel of the thread it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ChannelId>,
    /// The project of its channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The kind of event that started it.
    pub kind: EventKind,
    /// The person who asked. `None` if no person asked, or one without an id, such as the person at
    /// the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// The name of that person at that time, on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The id of the message that asked, or `None` if it was not a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// The backend that answered, by name.
    pub backend: String,
    /// The version of its component; empty if no component was called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// SHA-256 of the component, as in [`crate::workspace::ServedComponent`]; empty if no component
    /// was called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The agent's version, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The model that answered: the one that the agent reported, or else the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How it ended.
    pub how: TurnStatus,
    /// How many tools its agent used.
    #[serde(default)]
    pub tools: u32,
    /// Tokens and price, or `None` if the agent reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Path of its recording below `RECORDINGS_DIR`. `None` if no agent ran, or if recordings of
    /// this age were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<PathBuf>,
    /// The id of the link it ran on, or `None` if no agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The beginning of the prompt, or `None` if recordings of this age were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The beginning of the answer, or of the partial answer of a failed turn. `None` if recordings
    /// of this age were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
}

impl TurnLine {
    /// Returns what the turn counts in budgets, or `None` if it started no agent.
    #[must_use]
    pub fn spent(&self) -> Option<SpentTurn> {
        self.link.as_ref()?;
        let subject = BudgetSubject {
            person: self.user,
            parent: self.parent,
            project: self.project.clone(),
            ..BudgetSubject::of_lane(&self.lane, &self.backend)
        };
        let spent = SpentAmounts::of_turn(self.usage.as_ref(), self.took_ms);
        Some(SpentTurn { ended: self.ended, subject, spent })
    }

    /// Returns whether the line has fields that are removed together with its recording.
    pub(super) fn has_texts(&self) -> bool {
        self.asked.is_some() || self.answered.is_some() || self.recording.is_some()
    }

    /// Returns the line without these fields.
    pub(super) fn without_texts(self) -> Self {
        Self { asked: None, answered: None, recording: None, ..self }
    }

    /// Returns the line with its texts cut, so that it fits into [`super::days::LINE_LIMIT`] bytes
    /// whatever the agent reports.
    pub(super) fn bounded(mut self) -> Self {
        let short = |text: &mut String, max_chars: usize| {
            if let Cow::Owned(cut) = cut(text, max_chars) {
                *text = cut;
            }
        };
        self.asked.iter_mut().for_each(|text| short(text, ASKED_LIMIT));
        self.answered.iter_mut().for_each(|text| short(text, ANSWERED_LIMIT));
        self.name = self.name.map(|name| short_line(&name, NAME_LIMIT));
        self.project = self.project.map(|project| short_line(&project, NAME_LIMIT));
        self.agent_version = self.agent_version.map(|version| short_line(&version, NAME_LIMIT));
        self.model = self.model.map(|model| short_line(&model, NAME_LIMIT));
        if let Some(usage) = &mut self.usage {
            usage.models.truncate(MAX_MODELS);
            for model in &mut usage.models {
                model.model = short_line(&model.model, NAME_LIMIT);
            }
        }
        self
    }
}

pub(in crate::workspace) fn write_text<T: fmt::Display, S: Serializer>(
    value: &T,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

pub(in crate::workspace) fn read_text<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}
