//! The terminal: prompts in, streamed answers out.
//!
//! On a terminal, text is printed as it comes and lines typed meanwhile wait their turn; otherwise one prompt is read,
//! answered and printed after the other, so that it can be scripted. While an agent asks, the next line answers it. Owns stdin and stdout; decides nothing about turns.

mod outlet;
mod questions;
mod session;

pub use outlet::{Console, stdout};
pub use session::{Leave, run};
