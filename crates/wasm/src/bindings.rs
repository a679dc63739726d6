//! The code wasmtime makes of `wit/`, and of the contract before it, and nothing else. Only `convert`
//! and `instance` look in here.
#![allow(missing_docs, clippy::all, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "agent-backend",
    exports: { default: async },
});

/// Bindings of the contract before the newest, from the frozen `wit/frozen/0.1.1`.
pub(super) mod older {
    wasmtime::component::bindgen!({
        path: "../../wit/frozen/0.1.1",
        world: "agent-backend",
        exports: { default: async },
    });
}
