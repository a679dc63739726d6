//! The options of the adapter, and the checks of the bot's configuration in Discord.

pub(crate) mod checkup;
pub(crate) mod options;
pub(crate) mod servers;
pub(crate) mod start_error;
pub(crate) mod token;
