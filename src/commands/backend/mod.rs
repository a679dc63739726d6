//! Commands that install and replace backends. `crates/authoring` has the ones for their authors.

pub(super) mod approve;
#[cfg_attr(not(feature = "registry"), path = "artifacts_absent.rs")]
mod artifacts;
mod changes;
mod consent;
mod fetched;
pub(super) mod install;
mod locked;
pub(super) mod rollback;
pub(super) mod rollout;
mod serving;
