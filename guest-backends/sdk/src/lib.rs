//! Building blocks for Aetheel backends, independent of any particular agent.
//!
//! A backend is a state machine between the gateway and an agent. It receives what happened
//! ([`wit::Input`]) and returns what the gateway must do ([`wit::Action`]). It has no clock, no
//! files and no network, so the same code runs natively in tests and sandboxed in the gateway.
//! Start with the module that fits your agent:
//!
//! - one process per turn, which exits when it is done: [`one_shot`], three functions;
//! - one process for many turns: [`live`], four functions;
//! - both, as the operator chooses: [`Either`] of the two;
//! - neither: implement [`Backend`] directly.
//!
//! Then report what each line of output means with [`Emit`]. [`json`] reads fields that may be
//! missing or have another type, [`tool`] describes uses of tools, [`rpc`] matches JSON-RPC
//! requests and responses, [`live::Asks`] tracks questions to users, and [`Grants`] tracks
//! permissions that users granted. An agent that can call tools of the gateway reports each call with
//! [`live::LinkContext::tool_request`] or [`Emit::tool_request`], and gets the result in
//! `tool_result` of its trait. Tests play recordings ([`fixture::cases`]) or whole dialogues
//! ([`dialogue`]) to the backend, also with disturbed lines ([`disturb`]), or measure its speed
//! ([`throughput`]).
//!
//! The crate contains the bindings of the contract (the folder `wit` next to this one) and the
//! macro that exports a [`Backend`] as a component.

#[cfg(not(target_arch = "wasm32"))]
mod actions_json;
mod defaults;
#[cfg(not(target_arch = "wasm32"))]
pub mod dialogue;
#[cfg(not(target_arch = "wasm32"))]
pub mod disturb;
mod either;
mod emit;
mod end;
pub mod figures;
#[cfg(not(target_arch = "wasm32"))]
pub mod fixture;
pub mod form;
mod grants;
#[cfg(any(target_arch = "wasm32", test))]
mod heap;
#[cfg(not(target_arch = "wasm32"))]
mod inputs_json;
pub mod json;
pub mod live;
#[cfg(not(target_arch = "wasm32"))]
pub mod mutated;
#[cfg(not(target_arch = "wasm32"))]
pub mod mutation;
mod offer;
pub mod one_shot;
#[cfg(not(target_arch = "wasm32"))]
mod outline;
pub mod renewal;
pub mod rpc;
pub mod text;
#[cfg(not(target_arch = "wasm32"))]
pub mod throughput;
pub mod tool;

#[allow(missing_docs, reason = "documented where it is defined: wit/types.wit")]
#[doc(hidden)]
pub mod bindings {
    #[cfg(target_arch = "wasm32")]
    wit_bindgen::generate!({
        path: "../wit",
        world: "agent-backend",
        pub_export_macro: true,
        additional_derives: [PartialEq],
    });
    #[cfg(not(target_arch = "wasm32"))]
    wit_bindgen::generate!({
        path: "../wit",
        world: "agent-backend",
        additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
    });
}

/// The name that backends give the MCP server of the host, with which agents call its tools.
pub const TOOL_SERVER: &str = "aetheel";

pub use either::Either;
pub use emit::Emit;
pub use end::{TurnResult, failure, failure_kind, last_words, tokens, without_result};
pub use grants::Grants;
pub use offer::Offer;
#[cfg(not(target_arch = "wasm32"))]
pub use outline::outline;

/// Types of the contract, generated from `wit/types.wit`, where each item is documented.
pub mod wit {
    pub use crate::bindings::aetheel::backend::types::*;
}

use wit::{Action, TimedInput};

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static HEAP: heap::Heap = heap::Heap::new();

/// A backend: the state machine of one link. The host creates one with `Default` for every link and
/// passes it the inputs in order.
pub trait Backend: Default + 'static {
    /// Returns the descriptor: JSON that fits `wit/descriptor.schema.json`. Must return the same
    /// text on every call.
    fn describe() -> String;

    /// Handles one input and appends the resulting actions to `out`.
    ///
    /// # Errors
    /// An error makes the host end the link and fail its open turns with this text. Return one only
    /// if the backend cannot continue, never for unexpected output of the agent.
    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String>;

    /// Returns the state of an idle link, for another version of the backend or for this one after a
    /// restart of the host. The default returns `None`, which means that the link cannot move.
    fn save(&self) -> Option<String> {
        None
    }

    /// Restores the state that `save` of this or another version returned.
    ///
    /// # Errors
    /// Fails if the state does not fit. The default always fails.
    fn load(&mut self, _state: &str, saved_by: &str) -> Result<(), String> {
        Err(format!("this backend saves no state and cannot load that of version {saved_by}"))
    }
}

/// Exports a [`Backend`] as the component. Expands to nothing on native targets, so that the crate
/// also builds for tests.
#[macro_export]
macro_rules! export_backend {
    ($backend:ty) => {
        #[cfg(target_arch = "wasm32")]
        mod component {
            use ::std::{cell::RefCell, string::String, vec::Vec};
            use $crate::Backend;
            use $crate::wit::{Action, TimedInput};

            struct Component;

            // Each link has its own instance, and an instance has one thread.
            ::std::thread_local! {
                static LINK: RefCell<$backend> = RefCell::default();
            }

            impl $crate::bindings::exports::aetheel::backend::backend::Guest for Component {
                fn describe() -> String {
                    <$backend>::describe()
                }
                fn handle(inputs: Vec<TimedInput>) -> Result<Vec<Action>, String> {
                    LINK.with_borrow_mut(|link| {
                        let mut out = Vec::new();
                        for input in inputs {
                            link.handle(input, &mut out)?;
                        }
                        Ok(out)
                    })
                }
                fn save() -> Option<String> {
                    LINK.with_borrow(|link| link.save())
                }
                fn load(state: String, saved_by: String) -> Result<(), String> {
                    LINK.with_borrow_mut(|link| link.load(&state, &saved_by))
                }
            }

            $crate::bindings::export!(Component with_types_in $crate::bindings);
        }
    };
}
