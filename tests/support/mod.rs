//! Support code that several test modules use.

pub mod browser;
pub mod caller;
pub mod chrome;
pub mod discord;
pub mod guests;
pub mod lasting;
pub mod link;
pub mod model_server;
pub mod needs;
pub mod observers;
pub mod oci_registry;
pub mod policies;
pub mod postgres;
pub mod processes;
pub mod program;
pub mod readme;
pub mod recordings;
pub mod router;
pub mod scripted;
pub mod shelf;
pub mod trace_collector;

/// Returns the component of a built backend.
pub fn built(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("backends").join(name);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}\nhint: run `make guests`", path.display()))
}
