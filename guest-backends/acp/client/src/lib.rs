//! The Agent Client Protocol, version 1, from the client's side: one agent process, many sessions.
//!
//! This crate implements the protocol ([`Client`]). The SDK manages the process and the open turns
//! ([`Live`]). [`Agent`] describes the differences between agents. Tested against claude-agent-acp
//! 0.49.0, codex-acp 2.6.0 and 0.16.0, Gemini CLI 0.61.0, OpenCode 1.18.33 and Factory Droid
//! 0.225.2, which differ in nearly everything that the protocol leaves open: the comments name the
//! agent that needs a special case.
//!
//! Three things must never happen (see `../tests` of the backend `acp`): a second prompt in a
//! running turn unless the agent announced support for it, an error as the answer to a permission
//! request, and a permission option that is chosen by its id.

mod abilities;
mod agent;
mod answer;
mod client;
mod config;
mod control;
mod elicitation;
mod failure;
mod host_tools;
mod messages;
mod opening;
mod permission;
mod prompt;
mod query;
mod session;
mod spent;
mod tool;
mod turn;

pub use agent::{Agent, Launch, Modes, SystemPrompt};
pub use answer::{Answer, Holds};
pub use client::{Client, Live};
pub use failure::{kind_of, kind_of_status, words};
pub use prompt::standing;
pub use tool::{kind_of_name, target};
