//! The data types and rules of Aetheel: events, agent actions, the queue, prompts,
//! schedules.
//!
//! Owns everything that is data or a pure function. Times are arguments. Must not read or write
//! files, sockets or processes, and must not depend on another crate of the workspace. An exception
//! is [`prompt::neutralise`], which checks whether files exist.

pub mod access;
pub mod agent;
pub mod audit;
pub mod baseline;
pub mod budget;
pub mod choice;
pub mod claim;
pub mod discord;
pub mod event;
pub mod exit;
pub mod extension;
pub mod file_use;
pub mod finding;
pub mod fold;
pub mod framing;
pub mod host_tool;
pub mod id;
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
pub mod table;
pub mod tool_summary;
pub mod traces;
