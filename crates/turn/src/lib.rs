//! One turn: from a prompt to exactly one outcome.
//!
//! Owns the turn engine and the recordings. [`run`] drives a turn on a link of [`Links`], which is a
//! guest with its agent. Its ports are [`Backend`] and [`Guest`] (`guest`), [`Launcher`] (`launch`)
//! and [`Audience`]. Must not know wasmtime, processes or chat platforms.
//!
//! * A turn: `driver`, with its `clock`, its `guard` and its end (`ending`, `reason`).
//! * Links: `links` selects the link of a turn, and `link` runs it. `plan` and `reach` decide what
//!   its guest may start, from the operator's settings (`host`).
//! * Recordings: `recording` writes them and manages their folder, `replay` replays one to a guest,
//!   `reread` finds a lost answer in one, and `told` converts a recorded turn to a transcript.
//!   `conservation` detects answers that were lost.

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
