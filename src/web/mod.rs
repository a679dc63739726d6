//! What the program offers over HTTP, each on a listener of its own.
//!
//! Decides nothing: it asks the rest through traits that `app` answers.

pub mod status;
pub mod webhooks;
