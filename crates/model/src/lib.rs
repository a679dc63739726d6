//! The words and rules of Aetheel: events, agents' actions, settings, the queue, prompts, schedules.
//!
//! Everything here is data or a pure function. Times are arguments, and nothing reads or writes
//! files, sockets or processes. [`vigil`] is the one exception: it starts tasks.
//!
//! This crate must not name another crate of the workspace.

pub mod access;
pub mod agent;
pub mod baseline;
pub mod config;
pub mod event;
pub mod figures;
pub mod fold;
pub mod framing;
pub mod lease;
pub mod lines;
pub mod markdown;
pub mod plain;
pub mod prompt;
pub mod queue;
pub mod redact;
pub mod schedule;
pub mod split;
pub mod sse;
pub mod vigil;
