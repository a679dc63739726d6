//! The position of a turn on its link.

use tokio::sync::mpsc;

use super::Links;
use super::key::LinkKey;
use crate::link::{Link, LinkReport, LinkRequest};
use aetheel_model::agent::TurnRef;
use aetheel_model::event::Lane;

/// A turn's position on a link. Dropping it ends the turn.
pub(crate) struct TurnSlot {
    pub(super) links: Links,
    pub(crate) link: Link,
    pub(crate) turn: TurnRef,
    pub(crate) reports: mpsc::UnboundedReceiver<LinkReport>,
    pub(super) lane: Lane,
    /// The key of the link, if it is kept.
    pub(super) key: Option<LinkKey>,
    /// The ending to write into the recording.
    pub(crate) ending: String,
}

impl TurnSlot {
    /// Stores the agent's id of the session.
    pub(crate) fn set_native_id(&self, native: &str) {
        if let Some(key) = &self.key {
            self.links.0.kept.set_native(key, &self.lane, self.turn.session, native);
        }
    }
}

impl Drop for TurnSlot {
    fn drop(&mut self) {
        self.link.send(LinkRequest::End(self.turn, std::mem::take(&mut self.ending)));
        if self.key.is_some() {
            self.links.retire_idle();
        }
    }
}
