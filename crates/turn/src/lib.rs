//! One turn: from a prompt to exactly one outcome.
//!
//! [`run`] drives a turn on a link of [`Links`]: a guest and its agent; the ports it needs are
//! [`Backend`]/[`Guest`] (`guest`), [`Launcher`] (`launch`) and [`Audience`].
//!
//! * A turn: `driver`, with its `clock`, its `guard` and how it ended (`ending`, `reason`).
//! * Links: `links` finds one for a turn, `link` is one. What its guest may start is decided in
//!   `plan` and `reach`, by what the operator set (`host`).
//! * Recordings: `recording` writes them and keeps their folder, `replay` plays one to a guest,
//!   `reread` finds a lost answer in one, `told` tells one turn from one. `conservation` detects
//!   answers that were lost.

mod audience;
mod blob;
mod clock;
pub mod conservation;
mod driver;
mod ending;
mod guard;
mod guest;
mod host;
mod launch;
mod link;
mod links;
pub mod plan;
mod reach;
pub mod reason;
pub mod recording;
pub mod replay;
pub mod reread;
pub mod told;

pub use audience::{Answerer, Audience, Settled};
pub use blob::Blob;
pub use driver::{Steering, TurnRequest, run};
pub use ending::{Ending, StopReason, TurnResult};
pub use guest::{Backend, Backends, Generation, Guest, GuestFailure, KnownComponent, Shelf};
pub use host::{Agent, Agents, BASE_VARIABLES, Host};
pub use launch::{
    Launch, LaunchError, Launcher, OutputLine, Process, ProcessCommand, ProcessEvent,
    SurvivingProcess, Survivor,
};
pub use link::{OnUnknown, Unasked, UnknownOutput};
pub use links::{ContinuedTurn, Links, TurnPlace};
pub use plan::{ARGUMENT_LIMIT, PlanFault};
pub use reach::{Fence, Reach};
