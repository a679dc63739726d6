//! The Discord adapter against a local Discord.

mod answers;
mod asks;
mod connection;
mod conversations;
mod desk;
mod files;
mod notices;
mod panel;
mod prompts;
mod refusals;
mod unasked;
