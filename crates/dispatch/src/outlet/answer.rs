//! The result of a turn as it is delivered.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Offer;
use super::limited::{CutTurn, LimitedTurn};
use aetheel_model::agent::Usage;
use aetheel_model::id::UserId;
use aetheel_model::plain::{clean_text, one_line};
use aetheel_model::redact::Redactor;
use aetheel_store::workspace::TurnLine;

/// A file in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AnswerFile {
    /// A plain file name with an extension.
    pub name: String,
    /// Where the file is stored until it is delivered.
    pub path: PathBuf,
}

/// The result of a turn, as it is saved in the journal and delivered to people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TurnAnswer {
    /// The agent's unchanged text. If the turn failed, the part that it produced.
    pub text: String,
    /// The failure, worded for people: short, with its kind and the correlation id, without
    /// internals.
    pub failure: Option<String>,
    /// Additional information for people, one line each.
    pub notices: Vec<String>,
    /// The label of the backend that answered.
    pub backend: String,
    /// The model that answered, as the agent reports it, or else the model that was requested.
    pub model: Option<String>,
    /// Details of a failure, for the operator at the terminal. Never shown in Discord.
    #[serde(skip)]
    pub detail: Option<String>,
    /// Whether the agent was lost, because the holder (the process that runs agents) has ended.
    #[serde(skip)]
    pub agent_lost: bool,
    /// Whether the turn did not start because its backend is paused.
    #[serde(skip)]
    pub paused: bool,
    /// The usage limit that ended the turn.
    #[serde(skip)]
    pub limit: Option<LimitedTurn>,
    /// The facts about a turn that was stopped.
    #[serde(skip)]
    pub cut: Option<CutTurn>,
    /// The tokens and the cost of the turn; `None` if the agent did not report them.
    pub usage: Option<Usage>,
    /// The time from the start of the turn to its end.
    pub took: Duration,
    /// One line of Markdown about the tools of the turn. `None` if no tool ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// Files that the agent made. They appear below the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AnswerFile>,
    /// A button below the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    /// The user to mention, because the turn took long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping: Option<UserId>,
    /// The key of the event that continues the conversation after this answer. The event is accepted
    /// after the answer is saved, by this process or the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<String>,
    /// The line for `state/turns`, without texts. `None` if the answer is not the result of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Box<TurnLine>>,
}

impl TurnAnswer {
    /// Creates an empty answer of a backend.
    pub(crate) fn from_backend(backend: impl Into<String>) -> Self {
        Self { backend: backend.into(), ..Self::default() }
    }

    /// Creates an answer that only reports a failure.
    pub(crate) fn failed(backend: impl Into<String>, failure: impl Into<String>) -> Self {
        Self { failure: Some(failure.into()), ..Self::from_backend(backend) }
    }

    /// Returns the form in which the answer is saved in the journal.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an answer is plain data")
    }

    /// Returns the answer without secrets, and without characters that move a cursor or hide or
    /// reorder text.
    #[must_use]
    pub fn cleaned(self, redactor: &Redactor) -> Self {
        let plain = |text: String| redactor.redact(clean_text(&text).into_owned());
        Self {
            text: plain(self.text),
            failure: self.failure.map(plain),
            notices: self.notices.into_iter().map(plain).collect(),
            detail: self.detail.map(plain),
            tools: self.tools.map(plain),
            backend: one_line(&self.backend),
            model: self.model.map(|model| redactor.redact(one_line(&model))),
            ..self
        }
    }
}
