//! The console: prompts from stdin, and streamed answers on stdout.
//!
//! At a terminal, answers are streamed, and lines typed in the meantime are queued. The input line,
//! edited with rustyline, stays below the printed text. Without a terminal, prompts are read,
//! answered and printed one after the other, for scripts. While an agent asks a question, the next
//! line answers it. This crate owns stdin and stdout, and makes no decisions about turns.
//!
//! | module | content |
//! |---|---|
//! | [`session`] | reads prompts and commands, and runs them |
//! | [`input`], [`editing`], [`completion`], [`names`] | lines from stdin, edited and completed |
//! | [`commands`], [`help`], [`files`] | commands, their help, and attached files |
//! | [`outlet`], [`reply`], [`questions`], [`folded`] | answers, questions and notices |
//! | [`screen`], [`markdown`], [`terminal`] | rows on stdout, and the mode of the terminal |
//! | [`waiting`], [`saved`] | prompts that wait when a person leaves |
//! | [`audit`], [`error`] | entries of the audit log, and lines without an effect |

mod audit;
mod commands;
mod completion;
mod editing;
mod error;
mod files;
mod folded;
mod help;
mod input;
mod markdown;
mod names;
mod outlet;
mod questions;
mod reply;
mod saved;
mod screen;
mod session;
mod terminal;
mod waiting;

pub use outlet::{Console, PrintBeside};
pub use session::{SessionEnd, run};
