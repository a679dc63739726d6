//! Recovery of unfinished events and lost replies.
//!
//! [`restart`] decides how the events of a previous process continue, and asks people about some of
//! them ([`offer`], [`offering`]). [`import`] imports the events of another node. [`unread`] keeps replies that no
//! backend could read, and [`redeliver`] reads and delivers them later.

pub(crate) mod import;
pub(crate) mod offer;
mod offering;
pub(crate) mod redeliver;
pub(crate) mod restart;
pub(crate) mod unread;
