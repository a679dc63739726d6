//! The reason why a person's request about a lane is refused.

use std::fmt;

use aetheel_store::workspace::DirectoryError;

/// The reason why no agent can work in a lane. The texts are for operators.
#[derive(Debug, thiserror::Error)]
pub enum LaneDirectoryError {
    /// The entry of the lane in `channels.md` is invalid, for this reason.
    #[error("{0}")]
    Entry(String),
    /// The directory in `channels.md` cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// The reason why a person's request about a lane is refused. The texts are for that person.
#[derive(Debug, thiserror::Error)]
pub enum LaneRequestError {
    /// The backend does not exist.
    #[error("There is no backend {name:?}; there are: {}.", offered.join(", "))]
    NoBackend {
        /// The name of the backend.
        name: String,
        /// The backends that people may choose.
        offered: Vec<String>,
    },
    /// The operator does not allow the backend in this lane.
    #[error(
        "The operator does not offer {name} here (ALLOWED_BACKENDS); there are: {}.",
        offered.join(", ")
    )]
    NotOffered {
        /// The name of the backend.
        name: String,
        /// The backends that people may choose.
        offered: Vec<String>,
    },
    /// The backend cannot work on this machine.
    #[error("{name} cannot be used here: {reason}.")]
    Unavailable {
        /// The name of the backend.
        name: String,
        /// The reason, in a few words.
        reason: String,
    },
    /// The backend has no such setting.
    #[error("{backend} has no {what}.")]
    NoSetting {
        /// The label of the backend.
        backend: String,
        /// The missing feature.
        what: &'static str,
    },
    /// The value of the setting is not one of those offered.
    #[error("{problem}; there are: {offered}.")]
    Value {
        /// The problem with the value.
        problem: ValueProblem,
        /// The values to choose from.
        offered: String,
    },
    /// The directory is not below the operator's project roots, or cannot be used.
    #[error(
        "{0:?} cannot be used: it must be an existing folder below PROJECT_ROOTS. Name such a folder, or add this one to PROJECT_ROOTS in the gateway's settings and restart."
    )]
    NotAProject(String),
    /// No agent can work in the lane.
    #[error(transparent)]
    Directory(#[from] LaneDirectoryError),
    /// The backend always starts a new conversation.
    #[error("This backend cannot resume conversations.")]
    NoResume,
    /// The backend with this label cannot continue a copy of a conversation.
    #[error(
        "{0} cannot copy conversations; `/sessions resume:` continues the conversation itself."
    )]
    NoFork(String),
    /// The lane has no conversation with the id.
    #[error("This channel has no such conversation; `/sessions` lists them.")]
    NoSuchConversation,
    /// The backend with this label cannot compact a conversation.
    #[error("{0} cannot shorten a conversation.")]
    NoCompact(String),
    /// A turn runs in the lane.
    #[error("The agent is at work here: try again when it is done.")]
    Busy,
    /// The lane has no conversation.
    #[error("There is no conversation here yet.")]
    NoConversation,
    /// The agent does not have the conversation in memory.
    #[error(
        "The conversation is not open now: it opens with your next message, then it can be shortened."
    )]
    NotOpen,
    /// The agent failed to compact the conversation. The log has the reason.
    #[error("The conversation could not be shortened. (agent failure)")]
    NotCompacted,
    /// The file with the choices cannot be written. The log has the reason.
    #[error("The choice could not be saved. (storage)")]
    NotSaved,
    /// The file with the conversations cannot be written. The log has the reason.
    #[error("The conversation could not be forgotten: its file cannot be written. (storage)")]
    NotForgotten,
    /// `channels.md` cannot be written. The log has the reason.
    #[error("The project could not be saved: channels.md cannot be written. (storage)")]
    ProjectNotSaved,
}

/// The problem with the value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueProblem {
    /// The text cannot be the name of a model.
    Model(String),
    /// The agent has no such level of thinking.
    Effort(String),
    /// The level of safety does not exist.
    Safety(String),
    /// The operator does not allow this level of safety.
    SafetyRefused(String),
    /// The mode does not exist.
    Mode(String),
    /// The operator allows only planning.
    OnlyPlanning,
}

impl fmt::Display for ValueProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(value) => write!(f, "{value:?} is not the name of a model"),
            Self::Effort(value) => write!(f, "There is no level of thinking {value:?}"),
            Self::Safety(value) => write!(f, "There is no level of safety {value:?}"),
            Self::SafetyRefused(value) => write!(f, "The operator does not allow {value} here"),
            Self::Mode(value) => write!(f, "There is no mode {value:?}"),
            Self::OnlyPlanning => f.write_str("The operator allows only planning here"),
        }
    }
}
