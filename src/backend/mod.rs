//! Backends as WASM components: the sandbox they run in, their admission, and their replacement
//! while the gateway runs.
//!
//! Owns everything that touches `wasmtime`: compiling, limits, what a guest may import, the words
//! crossing the border, and which generation of a backend is current. It never starts a process,
//! opens a connection or believes a guest: what a guest asks for is judged in [`crate::turn`].
//!
//! Pinned by `tests/backend` (hostile guests, trust, versions side by side, rollbacks) and
//! `tests/reload` (files replaced in every way).

mod admission;
mod arrival;
mod bindings;
mod breaker;
mod choice;
mod component;
mod convert;
mod deadline;
mod engine;
mod instance;
mod lineup;
mod loader;
mod log;
mod meanwhile;
mod measure;
mod order;
mod parcel;
mod place;
mod registry;
mod rollback;
mod sandbox;
mod source;
mod trial;
mod trust;
mod wants;
mod watch;

pub use admission::{AdmissionError, Inspection};
pub use component::{ComponentBackend, ComponentGuest};
pub use engine::{Engine, EngineError, cache_fault};
pub use lineup::{Chosen, Other};
pub use measure::Used;
pub use parcel::{Parcel, Placing};
pub use registry::{LoadReport, Registry, RegistryOptions};
pub use trust::{Distrust, Gate, Standing};
pub use wants::Wants;
