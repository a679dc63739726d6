//! The terminal: prompts in, streamed answers out.
//!
//! On a terminal, text is printed as it comes, lines typed meanwhile wait their turn, and the line
//! that is being written, which rustyline edits, stays below what is printed, with a status;
//! otherwise one prompt is read, answered and printed after the other, so that it can be scripted.
//! While an agent asks, the next line answers it. Owns stdin and stdout; decides nothing about
//! turns.

mod asking;
mod completion;
mod editing;
mod files;
mod folded;
mod input;
mod names;
mod outlet;
mod questions;
mod reply;
mod rows;
mod screen;
mod session;
mod status;
mod terminal;

pub use asking::{Asking, Left};
pub use outlet::{Beside, Console, stdout};
pub use session::{Leave, run};
