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
//! | module | content |
//! |---|---|
//! | [`engine`], [`function_cache`], [`cache_use`] | compilation, and code of earlier components |
//! | [`sandbox`], [`deadline`], [`measure`], [`breaker`] | limits of guests |
//! | [`component`], [`instance`], [`bindings`], [`convert`] | a guest: its calls and its types |
//! | [`log`], [`backtrace`], [`profile`] | its output, failures and time |
//! | [`trust`], [`trust_state`], [`requested`], [`release`] | the operator's approval |
//! | [`admission`], [`self_test`], [`admitter`], [`error`] | the examination of a component |
//! | [`loader`], [`load`], [`load_order`], [`follow`] | the task that loads components |
//! | [`watch`], [`source`] | the folder: changes, and reading a file once |
//! | [`candidates`], [`choice`], [`registry`], [`options`] | the component that serves a backend |
//! | [`partial`], [`rollout`], [`live`], [`live_versions`] | versions for a part of the lanes |
//! | [`keeper`], [`rollback`], [`fallback`], [`previous`] | components that served earlier |
//! | [`staged`], [`install`], [`shipped`] | putting a component into the folder |
//! | [`report`], [`version_error`] | reports on files and versions |
//! | [`extension`] | policies and observers, in the same sandbox |
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
