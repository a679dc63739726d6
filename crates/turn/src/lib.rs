//! One turn: from a prompt to exactly one outcome.
//!
//! Owns the turn engine and the recordings. [`run`] drives a turn on a link of [`Links`]. A link is
//! a guest (a running instance of a backend component) together with the agent process that it
//! controls. The ports of the crate are [`Backend`] and [`Guest`] (`guest`), [`Launcher`]
//! (`launch`), [`Policies`], [`TurnObservers`] and [`Audience`]. Must not know wasmtime, processes or chat platforms.
//!
//! * A turn: `driver`, with its `clock`, its `guard` and its end (`ending`, `reason`).
//! * Links: `links` selects the link of a turn, and `link` runs it. `plan` and `reach` decide what
//!   its guest may start, from the operator's settings (`host`).
//! * `tools` are the tools of the host that agents may call, and `tool_endpoints` finds the link of a
//!   call that arrives at the MCP server.
//! * Recordings: `recording` writes, keeps and reads them, `replay` replays one to a guest,
//!   `reread` finds a lost answer in one, and `transcript` converts a recorded turn to a
//!   transcript. `crash` checks whether a link could be rebuilt from one. `conservation` detects
//!   answers that were lost. `comparison` compares how two versions of a backend read a turn.

mod agent_folders;
mod audience;
mod blob;
mod clock;
pub mod comparison;
pub mod conservation;
pub mod crash;
mod driver;
mod ending;
mod guard;
mod guest;
mod host;
mod launch;
mod link;
mod links;
mod observers;
pub mod plan;
mod policies;
mod reach;
pub mod reason;
pub mod recording;
pub mod replay;
pub mod reread;
mod stop;
mod tool_endpoints;
mod tools;
pub mod transcript;
mod working_directory;

pub use agent_folders::{AgentFolders, LinkError};
pub use audience::{Answerer, AskCloseReason, Audience, Judgement};
pub use blob::Blob;
pub use driver::{Steering, TurnRequest, run};
pub use ending::{Ending, StopReason, Suspicion, TurnResult};
pub use guest::{Backend, Backends, Generation, Guest, GuestFailure, RolloutPair, VersionError};
pub use host::{Agents, BASE_VARIABLES, Host, InstalledAgent};
pub use launch::{
    AgentProcess, Launch, LaunchError, Launcher, OutputLine, ProcessCommand, ProcessEvent,
    SurvivingProcess, Survivor,
};
pub use link::{HOST_ASK, OnUnknown, RebuildError, UnknownOutput, UnsolicitedTurn};
pub use links::{ContinuedTurn, ContinuedTurns, FinishedTurnSlot, Links, QueryError};
pub use observers::{NoObservers, TurnObservers};
pub use plan::{ARGUMENT_LIMIT, PlanFault};
pub use policies::{NoPolicies, Policies};
pub use reach::{Reach, ReachPolicy};
pub use tool_endpoints::{ToolEndpoint, ToolEndpoints, ToolReply};
pub use tools::{
    ClaimAction, ClaimCall, DelegatedCall, HandOffRequest, HostRequest, LaterTurn,
    ReadChannelRequest, RepeatedTurn, ToolLimits, call_done, call_failed, host_tools,
};
pub use working_directory::{WorkingDirectory, WorkingDirectoryError};
