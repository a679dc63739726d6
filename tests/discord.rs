//! The Discord adapter against a local Discord.

mod answers;
mod asks;
mod connection;
mod desk;
mod notices;
mod panel;
mod prompts;
mod refusals;
