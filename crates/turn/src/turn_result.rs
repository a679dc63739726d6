//! The result of a turn, and the reasons for which a turn is stopped from outside.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::FinishedTurnSlot;
use aetheel_model::agent::{SessionReady, Usage};
use aetheel_model::baseline::Positions;
use aetheel_model::fold::Transcript;
use aetheel_recording::{Ending, Generation};

/// The reason why a turn is stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A person asked for it.
    User,
    /// A budget is used up.
    Budget,
    /// The gateway is shutting down.
    Shutdown,
}

impl From<StopReason> for Ending {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::User | StopReason::Budget => Self::Interrupted,
            StopReason::Shutdown => Self::ShutDown,
        }
    }
}

/// The reason why an answer, or a part of it, may be lost in a turn that completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// The turn had no answer, although turns of its backend always had one.
    Silence,
    /// People read an answer, but not the text at this path of the agent's output.
    LostPart(String),
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence => f.write_str("a success without an answer, unlike all before"),
            Self::LostPart(path) => {
                write!(f, "a part of an answer, at `{path}`, that reached nobody")
            }
        }
    }
}

/// Findings about the backend and the agent of a turn.
#[derive(Debug)]
pub struct TurnFindings {
    /// Whether the agent wrote anything, understood or not.
    pub output: bool,
    /// Whether the agent was lost for a reason outside the turn, so that the prompt is not to
    /// blame.
    pub orphaned: bool,
    /// Whether the turn succeeded without text, a file or a question.
    pub silent: bool,
    /// Why an answer may be lost, although the turn completed.
    pub suspicion: Option<Suspicion>,
    /// Whether the turn says something about the usual output of the agent.
    pub is_usual: bool,
    /// The positions of text in the output, if the answer can be read and positions are still
    /// learned.
    pub positions: Option<Positions>,
}

impl TurnFindings {
    /// Notes that an answer is optional, so that a turn without one is neither suspicious nor an
    /// example of the usual output.
    pub fn allow_silence(&mut self) {
        if self.silent {
            (self.suspicion, self.is_usual) = (None, false);
        }
    }
}

/// The result of a turn.
#[derive(Debug)]
pub struct TurnResult {
    /// The id of the link, which is also the name of its recording.
    pub link: String,
    /// The path of the recording.
    pub recording: PathBuf,
    /// The generation that the turn ended on.
    pub generation: Generation,
    /// The agent's version when the turn began, if it was known.
    pub agent_version: Option<String>,
    /// How the turn ended.
    pub ending: Ending,
    /// The agent's answer, or the part of it that arrived.
    pub text: String,
    /// The agent's session, if the agent reported one.
    pub session: Option<SessionReady>,
    /// Tokens and costs.
    pub usage: Option<Usage>,
    /// Everything that the backend reported.
    pub transcript: Transcript,
    /// The time from the start of the turn to its end.
    pub took: Duration,
    /// Findings about the backend and the agent.
    pub findings: TurnFindings,
    /// The slot of the turn on the link. The caller keeps it until the answer is saved. Once it is
    /// dropped, the turn cannot be continued after a restart of the gateway.
    pub slot: FinishedTurnSlot,
}
