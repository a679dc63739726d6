//! The data types and rules of Aetheel: events, agent actions, the queue, prompts,
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
pub mod choice;
pub mod claim;
pub mod clock;
pub mod event;
pub mod exit;
pub mod extension;
pub mod figures;
pub mod file_use;
pub mod finding;
pub mod fold;
pub mod framing;
pub mod host_tool;
pub mod id;
pub mod lease;
pub mod limits;
pub mod lines;
pub mod markdown;
pub mod observed;
pub mod permission;
pub mod plain;
pub mod policy;
pub mod prompt;
pub mod queue;
pub mod redact;
pub mod registry_key;
pub mod rollout;
pub mod schedule;
pub mod shown_time;
pub mod split;
pub mod sse;
pub mod suggest;
pub mod supervisor;
pub mod table;
pub mod tool_summary;
pub mod traces;
