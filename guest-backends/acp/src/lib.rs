//! Any agent of the Agent Client Protocol as a backend: what is started, and how, says a launch
//! profile of the operator's (`config/acp.md`), which reaches the backend as `settings.options`.
//!
//! The protocol is `aetheel-acp-client`; here stands only what a profile may say. `tests/` plays
//! recorded dialogues of six agents through it.

mod profile;

pub use profile::Profile;

/// The backend for agents that speak ACP, each with a launch profile.
pub type Backend = aetheel_acp_client::Live<Profile>;

aetheel_backend_sdk::export_backend!(crate::Backend);
