//! The outcome of a turn, as people get it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Offer;
use aetheel_model::agent::Usage;
use aetheel_model::plain::{clean_text, one_line};
use aetheel_model::redact::Redactor;
use aetheel_store::workspace::TurnLine;

/// A file of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AnswerFile {
    /// Plain, with an ending.
    pub name: String,
    /// Where it is kept until it is delivered.
    pub path: PathBuf,
}

/// The outcome of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Answer {
    /// The agent's text, exactly; with a failure, what there was of it.
    pub text: String,
    /// The failure, for people: short, its kind named, with the correlation id, no internals.
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
    /// Its agent was lost with whoever held it.
    #[serde(skip)]
    pub orphaned: bool,
    /// It did not begin: its backend is paused.
    #[serde(skip)]
    pub paused: bool,
    /// The tokens and cost of the turn; none: the agent told nothing.
    pub usage: Option<Usage>,
    /// From the start of the turn to its end.
    pub took: Duration,
    /// The files that the agent made, below the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AnswerFile>,
    /// A button below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    /// The user who is to hear of it, because it took long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping: Option<u64>,
    /// What is noted of its turn, without texts; none: no turn of its own came to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Box<TurnLine>>,
}

impl Answer {
    /// Makes an empty one of a backend.
    pub(crate) fn by(backend: impl Into<String>) -> Self {
        Self { backend: backend.into(), ..Self::default() }
    }

    /// Makes one that is a failure and nothing else.
    pub(crate) fn failed(backend: impl Into<String>, failure: impl Into<String>) -> Self {
        Self { failure: Some(failure.into()), ..Self::by(backend) }
    }

    /// The form in which it is kept in the journal.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an answer is plain data")
    }

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
