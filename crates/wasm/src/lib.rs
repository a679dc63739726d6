//! Backends as WASM components: the sandbox they run in, their admission, and their replacement
//! while the gateway runs.
//!
//! Owns everything that touches `wasmtime`: compiling, limits, what a guest may import, the words
//! crossing the border, and which generation of a backend is current. It never starts a process,
//! opens a connection or believes a guest: what a guest asks for is judged in [`aetheel_turn`].
//!
//! * A component: `admission` examines it, `engine` compiles it, `sandbox`, `deadline` and `measure`
//!   bound it, `instance` and `component` run it, `bindings` and `convert` carry its words, `log` its
//!   prints; `breaker` stops what keeps failing.
//! * The operator's word for it: `trust` with `standing`, and `wants`.
//! * The folder: `loader` follows it (`watch`, `source`, `order`, `load`), `candidates` has what was
//!   admitted and `choice` picks what serves; `rollback` and `stand_in` bring back what served,
//!   `tried` opens one beside what serves.
//!   `staged` and `install` put a new file there, `shipped` those that came with the program.
//!
//! Pinned by `tests/backend` (hostile guests, trust, versions side by side, rollbacks) and
//! `tests/reload.rs` (files replaced in every way).

mod admission;
mod bindings;
mod breaker;
mod candidates;
mod choice;
mod component;
mod convert;
mod deadline;
mod earlier;
mod engine;
mod error;
mod install;
mod instance;
mod load;
mod loader;
mod log;
mod measure;
mod options;
mod order;
mod registry;
mod report;
mod rollback;
mod sandbox;
mod shipped;
mod source;
mod staged;
mod stand_in;
mod standing;
mod trial;
mod tried;
mod trust;
mod wants;
mod watch;

pub use admission::Inspection;
pub use candidates::{Chosen, Other};
pub use component::{ComponentBackend, ComponentGuest};
pub use engine::{Engine, EngineError, cache_fault};
pub use error::AdmissionError;
pub use measure::Used;
pub use options::RegistryOptions;
pub use registry::Registry;
pub use report::LoadReport;
pub use shipped::bring;
pub use staged::{Installation, StagedComponent};
pub use standing::{Distrust, Standing};
pub use trust::Gate;
pub use wants::Wants;
