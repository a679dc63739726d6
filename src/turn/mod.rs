//! One turn: from a prompt to exactly one outcome.

mod guest;
mod launch;

pub use guest::{Backend, Backends, Generation, Guest, GuestFailure};
pub use launch::{Launch, LaunchError, Launcher, OutputLine, Process, ProcessCommand, ProcessEvent};
