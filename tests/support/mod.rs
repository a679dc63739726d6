//! What several test modules use.

pub mod discord;
pub mod guests;
pub mod model_server;
pub mod program;
pub mod scripted;
