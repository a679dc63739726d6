//! Bringing back what was left open or lost.
//!
//! [`restart`] decides what becomes of the events that an earlier life of the gateway left open;
//! [`absorb`] has it do so for those of another node.
//! Replies that no parser could read are noted in [`unread`], and read again and delivered in
//! [`redeliver`].

pub(crate) mod absorb;
mod redeliver;
pub(crate) mod restart;
pub(crate) mod unread;
