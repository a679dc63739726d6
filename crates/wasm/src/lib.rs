//! Backends as WASM components: their sandbox, their admission, and their replacement while the
//! gateway runs.
//!
//! Owns everything that uses `wasmtime`: compilation, limits, the imports of a guest, the conversion
//! of types at its border, and the current generation of each backend. Must not start a process or
//! open a connection, and must not trust a guest: [`aetheel_turn`] checks every request of a guest.
//!
//! * A component: `admission` examines it, `engine` compiles it, `sandbox`, `deadline` and `measure`
//!   limit it, `instance` and `component` run it, `bindings` and `convert` convert its types, `log`
//!   forwards its output, and `breaker` stops a component that keeps failing.
//! * The operator's approval: `trust` with `standing`, and `wants`.
//! * The folder: `loader` follows it (`watch`, `source`, `order`, `load`), `candidates` has the
//!   admitted components, and `choice` selects the one that serves. `rollback` and `stand_in` restore
//!   earlier ones, and `tried` opens one beside the one that serves. `staged` and `install` put a new
//!   file into the folder, and `shipped` puts the components there that belong to the program.
//!
//! `tests/backend` (hostile guests, trust, several versions, rollbacks) and `tests/reload.rs` (files
//! replaced in every way) test this crate.

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
