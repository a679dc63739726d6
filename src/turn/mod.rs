//! One turn: from a prompt to exactly one outcome.
//!
//! [`run`] drives a turn on a link of [`Links`]: a guest and its agent; the ports it needs are
//! [`Backend`]/[`Guest`], [`Launcher`] and [`Audience`].

mod audience;
mod blob;
mod driver;
mod ending;
mod guard;
mod guest;
mod host;
mod launch;
mod link;
mod links;
pub mod lost;
pub(crate) mod plan;
mod reach;
pub mod reason;
pub mod recording;
pub mod replay;
pub mod retention;
mod shelf;

pub use audience::{Answerer, Audience, Settled};
pub use blob::Blob;
pub use driver::{Steering, StopReason, TurnRequest, run};
pub use ending::{Ending, Seen, TurnResult};
pub use guest::{Backend, Backends, Generation, Guest, GuestFailure};
pub use host::{Agent, Agents, BASE_VARIABLES, Host};
pub use launch::{
    Launch, LaunchError, Launcher, OutputLine, Process, ProcessCommand, ProcessEvent,
};
pub use link::{Lookout, Sighting, Unasked};
pub use links::Links;
pub use plan::{ARGUMENT_LIMIT, PlanFault};
pub use reach::{Fence, Reach};
