//! One turn: from a prompt to exactly one outcome.
//!
//! Owns the turn engine. [`run`] drives a turn on a link of [`Links`]. A link is a guest (a running
//! instance of a backend component) together with the agent process that it controls. Must not know
//! wasmtime, processes, chat platforms or files of the operator.
//!
//! | module | content |
//! |---|---|
//! | [`driver`] | drives one turn until its outcome |
//! | [`clock`], [`guard`], [`stop`], [`turn_result`] | its time limits, answer and end |
//! | [`links`] | the link of a turn: kept, opened, restored or moved to a newer generation |
//! | [`link`] | one link: its state, its task and its recording |
//! | [`plan`], [`reach`], [`host`] | the programs that a guest may start |
//! | [`agent_folders`], [`working_directory`] | folders of agents, opened safely |
//! | [`tools`], [`tool_endpoints`] | tools of the host, and links of calls to the MCP server |
//! | [`audience`], [`policies`], [`observers`] | ports to observers, and to decisions |
//! | [`backends`], [`launch`] | ports to the versions of backends and to agent processes |
//! | [`blob`], [`os_text`], [`io_error`] | data of a link, and values as they are serialized |

mod agent_folders;
mod audience;
mod backends;
mod blob;
mod clock;
mod driver;
mod guard;
mod host;
mod io_error;
mod launch;
mod link;
mod links;
mod observers;
pub mod os_text;
pub mod plan;
mod policies;
mod reach;
mod stop;
mod tool_endpoints;
mod tools;
mod turn_result;
mod working_directory;

pub use agent_folders::{AgentFolders, LinkError};
pub use audience::{
    Answerer, AskCloseReason, Audience, Judgement, NewsKind, PolicyVerdict, TurnNews,
};
pub use backends::{Backends, VersionError};
pub use blob::Blob;
pub use driver::{Steering, TurnRequest, run};
pub use host::{Agents, BASE_VARIABLES, Host, InstalledAgent};
pub use launch::{
    AgentProcess, Launch, LaunchError, Launcher, OutputLine, ProcessCommand, ProcessEvent,
    SurvivingProcess, Survivor,
};
pub use link::{HOST_ASK, OnUnknown, UnknownOutput, UnsolicitedTurn};
pub use links::{ContinuedTurn, ContinuedTurns, FinishedTurnSlot, Links, QueryError};
pub use observers::{NoObservers, TurnObservers};
pub use plan::{ARGUMENT_LIMIT, PlanFault};
pub use policies::{NoPolicies, Policies};
pub use reach::{Reach, ReachPolicy};
pub use tool_endpoints::{ToolEndpoint, ToolEndpoints, ToolReply};
pub use tools::{
    ClaimAction, ClaimCall, DelegatedCall, HandOffRequest, HostRequest, LaterTurn, ListAgents,
    ReadChannelRequest, RepeatedTurn, SleepUntil, ToolLimits, call_done, call_failed, host_tools,
};
pub use turn_result::{StopReason, Suspicion, TurnFindings, TurnResult};
pub use working_directory::{WorkingDirectory, WorkingDirectoryError};
