//! Tests of the Discord adapter with a local Discord server.

mod answers;
mod asks;
mod bot;
mod catching_up;
mod claims;
mod connection;
mod conversations;
mod crowded;
mod files;
mod headings;
mod holding;
mod notices;
mod panel;
mod prompts;
mod recap;
mod refusals;
mod shards;
mod sharing;
mod tools;
mod unasked;
mod watched;
