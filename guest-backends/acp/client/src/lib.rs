//! The Agent Client Protocol, version 1, from the client's side: one agent process, many sessions.
//!
//! Owns the protocol ([`Client`]); the process, and which turns are open, is the SDK's ([`Live`]).
//! The ways of a single agent stand behind [`Agent`]. Made and tested against claude-agent-acp
//! 0.49.0, codex-acp 2.6.0 and 0.16.0, Gemini CLI 0.61.0, OpenCode 1.18.33 and Factory Droid
//! 0.225.2, which differ in nearly everything the protocol leaves open: the comments say who does
//! what. Must not: put a second prompt into a running turn unless the agent said that it takes one,
//! answer a permission request with an error, choose a permission option by its id (`../tests`,
//! with the backend `acp`).

mod abilities;
mod agent;
mod answer;
mod client;
mod config;
mod control;
mod failure;
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
