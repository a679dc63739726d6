//! The code that wasmtime generates from `wit/` and from the older versions of the contract, and
//! nothing else. Only `convert` and `instance` use it.
#![allow(missing_docs, clippy::all, reason = "generated")]

pub(super) mod policy {
    wasmtime::component::bindgen!({
        path: "../../wit/policy",
        world: "tool-policy",
        exports: { default: async },
    });
}

/// The bindings of the contract of observers.
pub(super) mod observer {
    wasmtime::component::bindgen!({
        path: "../../wit/observer",
        world: "turn-observer",
        exports: { default: async },
    });
}

/// The bindings of the newest contract.
pub(super) mod v0_3 {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "agent-backend",
        exports: { default: async },
    });
}

/// The bindings of the last version 0.2, which is frozen.
pub(super) mod v0_2 {
    wasmtime::component::bindgen!({
        path: "../../wit/frozen/0.2.1",
        world: "agent-backend",
        exports: { default: async },
    });
}

/// The bindings of the last version 0.1, which is frozen.
pub(super) mod v0_1 {
    wasmtime::component::bindgen!({
        path: "../../wit/frozen/0.1.1",
        world: "agent-backend",
        exports: { default: async },
    });
}
