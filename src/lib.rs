//! Aetheel lets people in Discord work with coding agents through backends that are replaced while
//! it runs.
//!
//! This package is the program: command line, start, shutdown, and the adapters that are too small
//! for a crate. Its second binary, `aetheel-hold`, uses the crate of that name only. A third one,
//! `aetheel-kit`, is in `aetheel-authoring`, which uses this library. The rest is in `crates/`. A
//! crate depends only on crates of lower rows:
//!
//! | layer | crates |
//! |---|---|
//! | workbench | `aetheel-authoring` |
//! | program | this package |
//! | holder, mending | `aetheel-hold` `aetheel-mending` |
//! | adapters | `aetheel-wasm` `aetheel-process` `aetheel-discord` `aetheel-console` `aetheel-web` `aetheel-cluster` `aetheel-registry` `aetheel-otel` |
//! | use cases | `aetheel-dispatch` `aetheel-kit` |
//! | turns | `aetheel-turn` |
//! | files | `aetheel-recording` `aetheel-store` |
//! | running, settings | `aetheel-runtime` `aetheel-settings` |
//! | data and rules | `aetheel-model` |
//!
//! | module | content |
//! |---|---|
//! | [`cli`], [`commands`] | the command line, with a file for each command |
//! | [`startup`] | the preparation of a start, from the operator's settings and files |
//! | [`app`] | the gateway: its start, its run and its shutdown |
//! | [`agents`] | the backends as the operator configured them, and their agents |
//! | [`sources`] | heartbeats, cron jobs, and later turns of agents |
//! | [`demo`], [`kit_program`] | the demo agent, and the start of `aetheel-kit` |
//! | [`terminal`], [`terminal_prompt`], [`progress`] | output and questions of commands |

pub mod agents;
pub mod app;
pub mod cli;
pub mod commands;
pub mod demo;
pub mod kit_program;
pub mod progress;
pub mod sources;
pub mod startup;
pub mod terminal;
pub mod terminal_prompt;
