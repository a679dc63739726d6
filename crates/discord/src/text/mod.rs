//! The text of Discord messages: mentions, formatting, tables, times, and quoted prompts. Pure.

pub(crate) mod markdown;
pub(crate) mod mention;
pub(crate) mod quote;
pub(crate) mod tables;
pub(crate) mod times;
