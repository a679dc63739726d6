//! The bot's account and its access lists.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;

use aetheel_model::access::AllowLists;

/// The bot's account and application, its owners, and the access lists.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) id: u64,
    pub(crate) application: u64,
    pub(crate) owners: Vec<u64>,
    /// The people and places that may use the bot.
    pub(crate) allowed: AllowLists,
    /// Whether the bot can read messages that do not mention it.
    pub(crate) reads_all: bool,
    /// When a refusal of each person was last logged.
    pub(crate) refusals: Mutex<HashMap<u64, Instant>>,
}
