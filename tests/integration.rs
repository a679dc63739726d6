//! The single integration test binary: tests across modules, with real components, processes and a
//! local Discord.
#![allow(unreachable_pub, reason = "a program exports nothing")]
#![allow(clippy::unwrap_used, reason = "a test that panics says what is wrong")]

mod support;

mod agents_in_host;
mod architecture;
mod artifacts;
mod backend;
mod browser;
mod cluster;
mod discord;
mod dispatch;
mod gallery;
mod gateway;
mod guests;
mod ignored;
mod kit;
mod languages;
mod links;
mod live;
mod load;
mod mending;
mod process;
mod promises;
mod proof;
mod reasons;
mod references;
mod reload;
mod requirements;
mod rollout;
mod schedules;
mod setup;
mod webhooks;
