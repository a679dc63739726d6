//! A backend for any agent of the Agent Client Protocol. The operator's launch profile
//! (`config/acp.md`) defines the program and its options; the backend gets it as
//! `settings.options`.
//!
//! The crate `aetheel-acp-client` implements the protocol. This crate only reads the profile. The
//! tests in `tests/` replay recorded dialogues of six agents.

mod profile;

pub use profile::Profile;

/// The backend for agents that speak ACP, each with a launch profile.
pub type Backend = aetheel_acp_client::Live<Profile>;

aetheel_backend_sdk::export_backend!(crate::Backend);
