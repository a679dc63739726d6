//! The HTTP services of the program, each on its own listener: status pages, webhooks, the
//! dashboard, and tools of the host for agents.
//!
//! Must not decide anything about turns or people: the dispatcher decides, and the program, through
//! the traits of this crate. This is the only crate that uses `axum` and `rmcp`.

mod connection;
#[cfg(feature = "dashboard")]
pub mod dashboard;
mod slots;
pub mod status;
pub mod tool_server;
pub mod webhooks;
