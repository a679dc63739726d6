//! Backends as WASM components: their sandbox, their admission, and their replacement while the
//! gateway runs.
//!
//! A *generation* is one load of a component by a running gateway, a *guest* is a running instance
//! of a component, and a *link* is one guest together with the agent processes that it talks to.
//!
//! Owns everything that uses `wasmtime`: compilation, limits, the imports of a guest, the
//! conversion of types at its border, and the current generation of each backend. Must not start a
//! process or open a connection, and must not trust a guest: [`aetheel_turn`] checks every request
//! of a guest.
//!
//! * A component: `admission` examines it, `engine` compiles it, `sandbox`, `deadline` and
//!   `measure` limit it, `instance` and `component` run it, `bindings` and `convert` convert its
//!   types, `log` forwards its output, `backtrace` names its functions after a failure, `profile`
//!   records where it spends its time, and `breaker` stops a component that keeps failing.
//! * The operator's approval: `trust` with `trust_state`, and `requested`.
//! * The folder: `loader` follows it (`watch`, `source`, `load_order`, `load`), `candidates` has
//!   the admitted components, and `choice` selects the one that serves. `rollout` holds a new one
//!   back until it is promoted. `rollback`, `fallback` and `previous` load earlier ones.
//!   `staged` and `install` put a new file into the folder, and `shipped` puts the components there
//!   that belong to the program.
//! * Other components: `extension` loads policies and observers, in the same sandbox.
//!
//! `tests/backend` (hostile guests, trust, several versions, rollbacks) and `tests/reload.rs`
//! (files replaced in every way) test this crate.

mod admission;
mod admitter;
mod backtrace;
mod bindings;
mod breaker;
mod cache_use;
mod candidates;
mod choice;
mod component;
mod convert;
mod deadline;
mod engine;
mod error;
mod extension;
mod fallback;
mod follow;
mod function_cache;
mod install;
mod instance;
mod keeper;
mod live;
mod live_versions;
mod load;
mod load_order;
mod loader;
mod log;
mod measure;
mod options;
mod partial;
mod previous;
mod profile;
mod registry;
mod release;
mod report;
mod requested;
mod rollback;
mod rollout;
mod sandbox;
mod self_test;
mod shipped;
mod source;
mod staged;
mod trust;
mod trust_state;
mod version_error;
mod watch;

pub use admission::Inspection;
pub use candidates::{Alternative, ServingInfo};
pub use component::{ComponentBackend, ComponentGuest};
pub use engine::{Engine, EngineError, cache_fault};
pub use error::AdmissionError;
pub use extension::{
    ExtensionInfo, ExtensionRefusal, LoadedObserver, LoadedPolicy, ObserverSet, PolicySet,
};
pub use measure::ResourceUsage;
pub use options::RegistryOptions;
pub use partial::PartialVersions;
pub use profile::{FunctionShare, StackProfile};
pub use registry::Registry;
pub use report::LoadReport;
pub use requested::RequestedCapabilities;
pub use shipped::install_shipped;
pub use staged::{Installation, StagedComponent};
pub use trust::TrustGate;
pub use trust_state::{Distrust, TrustState};
pub use version_error::ComponentVersionError;
