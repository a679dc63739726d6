//! The data types and rules of Aetheel: events, agent actions, the queue, prompts, schedules.
//!
//! Owns everything that is data or a pure function. Times are arguments. Must not read or write
//! files, sockets or processes, and must not depend on another crate of the workspace. An exception
//! is [`prompt::neutralise`], which checks whether files exist.
//!
//! | module | content |
//! |---|---|
//! | [`event`], [`queue`], [`schedule`] | events and lanes, the next event, and due times |
//! | [`id`], [`access`], [`permission`] | people and channels, their access, and permissions |
//! | [`agent`], [`limits`] | the types of the contract, and limits of guests and agents |
//! | [`prompt`] | the texts for the agent |
//! | [`fold`], [`split`], [`tool_summary`] | the visible state of a turn, and answers as messages |
//! | [`host_tool`], [`policy`], [`observed`], [`extension`] | host tools, policies, observers |
//! | [`budget`], [`claim`], [`file_use`] | caps on use, reserved files, and files of two lanes |
//! | [`audit`], [`baseline`], [`rollout`] | the audit log, an agent's usual output, new versions |
//! | [`markdown`], [`table`], [`plain`], [`redact`], [`shown_time`] | texts, without secrets |
//! | [`framing`], [`lines`], [`sse`] | bytes as messages, lines and server-sent events |
//! | [`choice`], [`discord`], [`traces`], [`registry_key`] | settings that several crates know |
//! | [`exit`], [`finding`], [`suggest`] | exit codes, findings of checks, suggestions for names |

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
