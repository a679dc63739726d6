//! Components that extend the gateway beside its backends: policies.
//!
//! They are files in subfolders of the backends folder and go through the same sandbox, checks and
//! trust as backends. `world` has the part of the admission that depends on the kind of component. `loader` follows a
//! folder, and `set` has the components that are in use (`loaded`). `policy` decides about requests of agents.
//! `tests/backend/policies.rs` tests this module.

mod loaded;
mod loader;
mod options;
mod policy;
mod set;
mod world;

pub use self::loaded::{ExtensionInfo, ExtensionRefusal};
pub use self::policy::{LoadedPolicy, PolicySet};
