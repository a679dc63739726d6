//! The bot's account, and who may use it.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;

use aetheel_model::config::AllowLists;

/// The bot's account and application, its owners, and the access lists.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) id: u64,
    pub(super) application: u64,
    pub(super) owners: Vec<u64>,
    /// The people and places that may use the bot.
    pub(super) allowed: AllowLists,
    /// Whether the bot can read messages that do not mention it.
    pub(super) reads_all: bool,
    /// When a refusal of each person was last logged.
    pub(super) refusals: Mutex<HashMap<u64, Instant>>,
}
