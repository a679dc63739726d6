//! Bringing back what was left open or lost.
//!
//! [`restart`] decides what becomes of the events that an earlier life of the gateway left open.
//! Replies that no parser could read are noted in [`unread`], and read again and delivered in
//! [`redeliver`].

mod redeliver;
pub(crate) mod restart;
pub(crate) mod unread;
