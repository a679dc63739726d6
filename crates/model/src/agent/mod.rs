//! The words of the contract: what goes into a guest, what comes out, and what a backend says of
//! itself.
//!
//! Plain data mirroring `wit/types.wit` item by item; the documentation of each item lives there.
//! The JSON form (kebab-case, one key per variant) is the form of recordings, see
//! `docs/recordings.md`.

#![allow(missing_docs, reason = "each item is documented where it is defined: wit/types.wit")]

mod action;
mod ask;
pub mod capability;
pub mod descriptor;
mod input;
pub mod labels;
pub mod options;
mod report;
mod state;
mod tools;

pub use action::*;
pub use ask::*;
pub use descriptor::Descriptor;
pub use input::*;
pub use report::*;
pub use tools::{AllowedTools, allowed_for, only_looks, permits, tool_names};

/// A conversation on a link.
pub type SessionKey = u32;
/// A turn on a link; picked by the guest from `0x8000_0000` up.
pub type TurnKey = u32;
/// A question to people.
pub type AskKey = u32;
/// A process of a link.
pub type ProcKey = u32;
