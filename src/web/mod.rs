//! What the program offers over HTTP, each on a listener of its own.

pub mod webhooks;
