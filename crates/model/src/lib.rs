//! The data types and rules of Aetheel: events, agent actions, settings, the queue, prompts,
//! schedules.
//!
//! Owns everything that is data or a pure function. Times are arguments. Must not read or write
//! files, sockets or processes, and must not depend on another crate of the workspace. These
//! modules are exceptions to purity: [`supervisor`] starts tasks, [`clock`], [`lease`] and
//! [`figures`] read the clock, and [`prompt::neutralise`] checks whether files exist.

pub mod access;
pub mod agent;
pub mod audit;
pub mod baseline;
pub mod budget;
pub mod claim;
pub mod clock;
pub mod config;
pub mod event;
pub mod exit;
pub mod extension;
pub mod figures;
pub mod file_use;
pub mod finding;
pub mod fold;
pub mod framing;
pub mod id;
pub mod lease;
pub mod lines;
pub mod markdown;
pub mod observed;
pub mod plain;
pub mod policy;
pub mod prompt;
pub mod queue;
pub mod redact;
pub mod schedule;
pub mod shown_time;
pub mod split;
pub mod sse;
pub mod supervisor;
pub mod table;
pub mod tool_summary;
