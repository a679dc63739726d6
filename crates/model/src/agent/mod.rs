//! The types of the contract: the inputs of a guest, its actions, and the descriptor of a backend.
//!
//! Plain data that mirrors `wit/types.wit` item by item; each item is documented there. The JSON
//! form (kebab-case, one key for each variant) is that of recordings, see `docs/recordings.md`.

#![allow(missing_docs, reason = "each item is documented where it is defined: wit/types.wit")]

mod action;
mod ask;
pub mod capability;
pub mod descriptor;
mod environment;
mod events;
mod input;
pub mod labels;
mod noise;
mod notice;
pub mod options;
mod report;
mod session_id;
mod state;
mod texts;
mod tool_use;
mod tools;
mod usage;

pub use action::*;
pub use ask::*;
pub use descriptor::Descriptor;
pub use events::*;
pub use input::*;
pub use notice::*;
pub use report::*;
pub use session_id::{InvalidSessionId, SessionId};
pub use texts::TextForm;
pub use tool_use::*;
pub use tools::{
    AllowedTools, allowed_tools_for, declared_names, is_read_only, permits, tool_names,
};
pub use usage::*;

/// A conversation on a link.
pub type SessionKey = u32;
/// A turn on a link. Guests choose keys from `0x8000_0000` on for turns that they begin themselves.
pub type TurnKey = u32;
/// A question to people.
pub type AskKey = u32;
/// A process of a link.
pub type ProcKey = u32;

/// Returns whether a field that an older contract lacks has its default. Such a field is left out,
/// so that recordings stay unchanged.
fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
