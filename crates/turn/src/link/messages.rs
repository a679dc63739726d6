//! The messages between a link and the drivers of its turns.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::Blob;
use crate::tools::DelegatedCall;
use aetheel_model::agent::{
    AgentEventKind, AgentFailure, Ask, AskDecision, AskKey, PromptPart, QueryKind, QueryResult,
    SessionKey, SessionReady, StartTurn, SteerOutcome, TurnDone, TurnRef, Unrecognised, Usage,
};
use aetheel_model::event::Lane;
use aetheel_model::policy::PolicyRuling;
use aetheel_recording::conservation::Examination;
use aetheel_recording::{Backend, Generation, GuestFailure};

pub(crate) enum LinkRequest {
    Begin(Box<Begin>),
    Interrupt(TurnRef),
    /// End the turn by force: stop the agent that serves it.
    GiveUp(TurnRef),
    Answer(AskKey, AskDecision),
    /// Record the decision of policies.
    Ruled(PolicyRuling),
    Steer(TurnRef, Vec<PromptPart>, oneshot::Sender<SteerOutcome>),
    /// The driver has finished the turn, with this ending.
    End(TurnRef, String),
    Query(LinkQuery),
    CloseSession(SessionKey),
    /// Move to a newer generation. The reply is false if the link cannot move.
    Renew(Arc<dyn Backend>, oneshot::Sender<bool>),
    /// Close as soon as no turn is open.
    Retire,
}

/// A question to the agent outside a turn.
pub(crate) struct LinkQuery {
    /// The session that the question is about.
    pub(crate) session: Option<SessionKey>,
    pub(crate) kind: QueryKind,
    pub(crate) reply_tx: oneshot::Sender<QueryReply>,
}

/// The reply to a [`LinkQuery`].
#[derive(Debug)]
pub(crate) struct QueryReply {
    pub(crate) result: QueryResult,
    /// The agent's new id of the session, if the id changed.
    pub(crate) native: Option<String>,
}

/// A request to begin a turn.
pub(crate) struct Begin {
    /// The correlation id of the turn.
    pub(crate) id: String,
    /// The event's sequence number, for the recording.
    pub(crate) event: u64,
    pub(crate) lane: Lane,
    pub(crate) start: StartTurn,
    /// The contents of the files in `start`.
    pub(crate) blobs: Vec<Blob>,
    pub(crate) reports: mpsc::UnboundedSender<LinkReport>,
}

/// A turn that an agent began by itself, for example because a background task finished.
#[derive(Debug)]
pub struct UnsolicitedTurn {
    /// The lane of the session.
    pub lane: Lane,
    /// The label of the backend, for people.
    pub backend: String,
    /// The text of the agent.
    pub text: String,
    /// Tokens and costs.
    pub usage: Option<Usage>,
}

/// Output of an agent that its backend does not know, at the moment when the backend reports it.
#[derive(Clone, Copy, Debug)]
pub struct UnknownOutput<'a> {
    /// The name of the backend.
    pub backend: &'a str,
    /// The generation of the backend.
    pub generation: &'a Generation,
    /// The agent's version when the last turn of the link began, if it is known.
    pub agent_version: Option<&'a str>,
    /// The id of the link, which is also the name of its recording.
    pub link: &'a str,
    /// The backend's description of the output.
    pub unknown: &'a Unrecognised,
}

/// Called for every unknown output while the turn runs. Must return at once.
pub type OnUnknown = Arc<dyn Fn(&UnknownOutput<'_>) + Send + Sync>;

/// A report of a link to the driver of a turn.
#[derive(Debug)]
pub(crate) enum LinkReport {
    Event(AgentEventKind),
    Session(SessionReady),
    Ask(Ask),
    /// The audience carries out a call of a host tool. Its result is an [`LinkRequest::Answer`].
    Delegated(DelegatedCall),
    Withdrawn(AskKey),
    Done(TurnDone),
    /// The result of comparing the agent's output with the text that people saw.
    Examined(Examination),
    /// The agent was started or wrote something.
    Active,
    /// The agent exited with code 0.
    ExitedWell,
    /// The agent was lost for a reason outside the turn: the process that held it ended, or the
    /// agent was already exiting when the turn began.
    Orphaned,
    /// The agent exceeded its output limit.
    OutputLimit,
    /// The guest returned no action for an interrupt.
    InterruptIgnored,
    /// The guest failed, but its agent keeps running and its output is recorded.
    GuestFailed,
    /// The agent's failure, for a turn that ends without an outcome.
    AgentFailed(AgentFailure),
    /// The end of the stderr of a process that exited.
    Stderr(String),
    /// The link was about to close, so the turn never began.
    Refused,
    /// The policies decided about the next question of a continued turn, which nobody saw.
    Ruled(PolicyRuling),
    /// The next event is of a continued turn, and happened at this time, in milliseconds since 1970.
    Replayed(i64),
    /// This question of a continued turn was answered before the restart.
    Answered(AskKey, AskDecision),
    /// People wrote to a continued turn before the restart.
    Steered,
    /// The guest was asked to interrupt a continued turn before the restart.
    Stopping,
    /// All earlier reports are about the time before the restart of the gateway.
    CaughtUp {
        /// The time that counts towards the turn's limit.
        spent: Duration,
        /// The time since the turn began, including questions and the absence of the gateway.
        elapsed: Duration,
    },
    /// The link reports nothing more. Contains the failure of its guest, if it failed.
    Over(Option<GuestFailure>),
}
