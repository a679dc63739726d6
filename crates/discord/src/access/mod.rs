//! Decides about access to the bot and to channels, and makes the requests to Discord that the
//! decisions need.

pub(crate) mod asker;
pub(crate) mod identity;
pub(crate) mod lookups;
pub(crate) mod permissions;
pub(crate) mod user_permissions;
