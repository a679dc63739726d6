//! Who may use the bot and what people may do in a channel, and the look-ups that this needs.

pub(crate) mod asker;
pub(crate) mod identity;
pub(crate) mod lookups;
pub(crate) mod permissions;
pub(crate) mod user_permissions;
