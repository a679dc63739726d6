//! What wasmtime makes of `wit/`, and nothing else. Only `convert` and `instance` look in here.
#![allow(missing_docs, clippy::all)] // generated

wasmtime::component::bindgen!({
    path: "wit",
    world: "agent-backend",
    exports: { default: async },
});
