//! The parts of an Aetheel backend that need no knowledge of its agent.
//!
//! A backend is the understanding half of one link between the gateway and an agent: it is told
//! what happened ([`wit::Input`]) and answers with what is to be done ([`wit::Action`]). It has no
//! clock, no files and no network, so that the same code is tested natively and runs sandboxed.
//! Begin with the kind of agent you have:
//!
//! - one process for every turn, which exits when it is done: [`one_shot`], three functions;
//! - one process for many turns: [`live`], four functions;
//! - both, as the operator chooses: [`Either`] of the two;
//! - neither: [`Backend`] itself.
//!
//! Then say what a line means, in the words of [`Emit`]. [`json`] reads fields that may have
//! drifted, [`tool`] knows what tools are about, [`rpc`] keeps JSON-RPC in order, [`live::Asks`]
//! what people are asked and [`Grants`] what they allowed. Tests play recordings
//! ([`fixture::cases`]) or whole dialogues ([`dialogue`]) to the backend, also disturbed
//! ([`disturb`]) or against the clock ([`throughput`]).
//!
//! Owns the bindings of the contract (the folder `wit` beside this one) and the export of a
//! [`Backend`] as a component. It knows no agent.

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

pub use either::Either;
pub use emit::Emit;
pub use end::{TurnResult, failure, failure_kind, last_words, tokens, without_result};
pub use grants::Grants;
pub use offer::Offer;
#[cfg(not(target_arch = "wasm32"))]
pub use outline::outline;

/// The words of the contract, as generated from `wit/types.wit`; the documentation of each item
/// lives there.
pub mod wit {
    pub use crate::bindings::aetheel::backend::types::*;
}

use wit::{Action, TimedInput};

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static HEAP: heap::Heap = heap::Heap::new();

/// A backend: the understanding half of one link. Made with `Default` for every link; sees inputs
/// in order.
pub trait Backend: Default + 'static {
    /// Returns the descriptor: JSON that fits `wit/descriptor.schema.json`. Constant.
    fn describe() -> String;

    /// Takes one input in and adds everything there is to do to `out`.
    ///
    /// # Errors
    /// Gives up: the host ends the link and fails its open turns with the text. For states the
    /// backend cannot go on from, not for strange output of the agent.
    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String>;

    /// Returns the state of an idle link for a newer generation; by default a link cannot move.
    fn save(&self) -> Option<String> {
        None
    }

    /// Takes over the state that `save` of another generation returned.
    ///
    /// # Errors
    /// The state does not fit; by default none does.
    fn load(&mut self, _state: &str, saved_by: &str) -> Result<(), String> {
        Err(format!("this backend takes over no state, not even from version {saved_by}"))
    }
}

/// Exports a [`Backend`] as the component. Does nothing natively, so that the crate also builds for
/// tests.
#[macro_export]
macro_rules! export_backend {
    ($backend:ty) => {
        #[cfg(target_arch = "wasm32")]
        mod component {
            use ::std::{cell::RefCell, string::String, vec::Vec};
            use $crate::Backend;
            use $crate::wit::{Action, TimedInput};

            struct Component;

            // One instance is one link, and an instance has one thread.
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
