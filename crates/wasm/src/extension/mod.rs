//! Components that extend the gateway beside its backends: policies and observers.
//!
//! They are files in subfolders of the backends folder and go through the same sandbox, checks and
//! trust as backends. `world` has the part of the admission that depends on the kind of component.
//! `loader` follows a folder, and `set` has the components that are in use (`loaded`). `policy`
//! decides about requests of agents, and `observer` reads the events of turns in a task of its own
//! (`observer_worker`). `tests/backend/policies.rs` and `tests/backend/observers.rs` test this
//! module.

mod loaded;
mod loader;
mod observer;
mod observer_worker;
mod options;
mod policy;
mod set;
mod world;

pub use self::loaded::{ExtensionInfo, ExtensionRefusal};
pub use self::observer::{LoadedObserver, ObserverSet};
pub use self::policy::{LoadedPolicy, PolicySet};
