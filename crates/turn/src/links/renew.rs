//! Moves open links to a newer generation of their backend.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Links;
use crate::link::{Link, WeakLink};
use aetheel_recording::Backend;

/// All open links, with the names of their backends.
#[derive(Default)]
pub(super) struct OpenLinks(Mutex<Vec<(String, WeakLink)>>);

impl OpenLinks {
    pub(super) fn add(&self, backend: &str, link: &Link) {
        let mut all = self.0.lock();
        all.retain(|(_, link)| link.is_alive());
        all.push((backend.to_owned(), link.downgrade()));
    }
}

impl Links {
    /// Asks the links of a backend to move to its newer generation, even while turns run. A link
    /// moves if the generation returns the recorded actions for its recording, and otherwise
    /// finishes on the old one. Links whose recordings may have gaps move before their next turn
    /// instead.
    pub fn renew(&self, backend: &Arc<dyn Backend>) {
        if !self.0.launcher.holds() {
            return;
        }
        let name = &backend.descriptor().name;
        for (_, link) in self.0.open.0.lock().iter().filter(|(of, _)| of == name) {
            link.renew(backend);
        }
    }
}
