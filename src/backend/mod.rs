//! Backends as WASM components: the sandbox they run in, their admission, and their replacement while the gateway runs.
//!
//! Owns everything that touches `wasmtime`: compiling, limits, what a guest may import, the words crossing the border,
//! and which generation of a backend is current. It never starts a process, opens a connection or believes a guest:
//! what a guest asks for is judged in [`crate::turn`].
//!
//! Pinned by `tests/backend` (hostile guests) and `tests/reload` (files replaced in every way).

mod admission;
mod bindings;
mod breaker;
mod component;
mod convert;
mod deadline;
mod engine;
mod instance;
mod loader;
mod log;
mod measure;
mod registry;
mod sandbox;
mod source;
mod trial;
mod watch;

pub use admission::{AdmissionError, Inspection};
pub use component::{ComponentBackend, ComponentGuest};
pub use engine::{Engine, EngineError};
pub use measure::Used;
pub use registry::{LoadReport, Registry, RegistryOptions};
