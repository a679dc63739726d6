//! The code that wasmtime generates from `wit/` and from the previous contract, and nothing else.
//! Only `convert` and `instance` use it.
#![allow(missing_docs, clippy::all, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "agent-backend",
    exports: { default: async },
});

/// The bindings of the previous contract, from the frozen `wit/frozen/0.1.1`.
pub(super) mod older {
    wasmtime::component::bindgen!({
        path: "../../wit/frozen/0.1.1",
        world: "agent-backend",
        exports: { default: async },
    });
}
