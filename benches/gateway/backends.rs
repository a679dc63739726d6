//! The backends that are measured, and the recordings of their agents.

use std::path::Path;
use std::sync::Arc;

use aetheel_model::limits::ResourceLimits;
use aetheel_wasm::{ComponentBackend, Engine, Registry, RegistryOptions};

use crate::component;

/// A backend with recordings in `tests/fixtures/NAME` and a native form in
/// `guest-backends/NAME/examples/native-NAME.rs`.
pub struct Measured {
    /// The name of the backend and of its folder.
    pub name: &'static str,
    /// The recording whose first turn is replayed: of a long-lived agent, in a new session.
    pub conversation: &'static str,
}

/// To add a backend, add a line here.
pub const BACKENDS: &[Measured] = &[
    Measured { name: "acp", conversation: "claude-init-prompt-streaming" },
    Measured { name: "claude", conversation: "live/two-turns" },
    Measured { name: "codex", conversation: "live-init-prompt-streaming" },
    Measured { name: "droid", conversation: "live-hello" },
    Measured { name: "gemini", conversation: "live-init-prompt-streaming" },
    Measured { name: "opencode", conversation: "hello" },
];

/// Returns the backend with this name. Panics if it does not exist.
pub fn named(name: &str) -> &'static Measured {
    BACKENDS.iter().find(|measured| measured.name == name).unwrap()
}

/// Loads one built backend as the gateway does.
pub async fn load(name: &str) -> Arc<ComponentBackend> {
    load_cached(name, None).await
}

/// Like [`load`], but uses the compiled components in the folder `cache`.
pub async fn load_cached(name: &str, cache: Option<&Path>) -> Arc<ComponentBackend> {
    let folder = tempfile::tempdir().unwrap();
    let file = component(name);
    std::fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    let engine = Engine::new(&ResourceLimits::default(), cache, aetheel_settings::NAMES).unwrap();
    let (registry, reports) = Registry::start(engine, RegistryOptions::new(folder.path())).await;
    registry.component(name).unwrap_or_else(|| panic!("not loaded: {reports:?}"))
}
