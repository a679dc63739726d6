//! The HTTP services of the program, each on a listener of its own.
//!
//! Decides nothing about turns and people: it asks `app`, behind traits, and the dispatcher.

mod connection;
mod crowd;
pub mod dashboard;
pub mod status;
pub mod webhooks;
