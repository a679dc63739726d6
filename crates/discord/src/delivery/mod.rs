//! Everything that the bot sends about turns: answers, questions, notices and markers.

mod activity;
pub(crate) mod context;
mod footer;
pub(crate) mod live;
mod marker_cleanup;
pub(crate) mod notices;
pub(crate) mod null_reply;
mod obstacle;
pub(crate) mod preview;
mod question_messages;
pub(crate) mod queue;
pub(crate) mod queue_marker;
mod recap;
pub(crate) mod reply;
pub(crate) mod threads;
mod typing;
