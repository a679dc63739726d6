//! Recovery of unfinished events and lost replies.
//!
//! [`restart`] decides how the events of a previous process continue ([`restart_action`]), and asks
//! people about some of them ([`offer`], [`offering`]). [`import`] imports the events of another
//! node. [`unread`] keeps replies that no backend could read, and [`redeliver`] reads and delivers
//! them later, also after the press of a button ([`lost_buttons`]).

pub(crate) mod import;
mod lost_buttons;
pub(crate) mod offer;
mod offering;
pub(crate) mod redeliver;
pub(crate) mod restart;
pub(crate) mod restart_action;
pub(crate) mod unread;
