//! The HTTP services of the program, each on its own listener.
//!
//! Must not decide anything about turns or people: the dispatcher decides, and the program, through
//! the traits of this crate. This is the only crate that uses `axum` and `rmcp`.
//!
//! | module | content |
//! |---|---|
//! | [`status`] | status pages for monitoring |
//! | [`webhooks`] | other systems start turns |
//! | `dashboard` | pages in a browser (cargo feature `dashboard`) |
//! | [`tool_server`] | tools of the host for agents (MCP) |
//! | [`connection`], [`slots`] | limits for connections and clients |

mod connection;
#[cfg(feature = "dashboard")]
pub mod dashboard;
mod slots;
pub mod status;
pub mod tool_server;
pub mod webhooks;
