//! How links go over to a newer generation of their backend while they live.

use std::sync::Arc;

use super::Links;
use crate::Backend;
use crate::link::Link;

impl Links {
    pub(super) fn note(&self, backend: &str, link: &Link) {
        let mut all = self.0.all.lock();
        all.retain(|(_, link)| link.lives());
        all.push((backend.to_owned(), link.downgrade()));
    }

    /// Has the links of a backend go over to its newer generation, those with running turns too: each
    /// does if the generation agrees with what was done there, and otherwise finishes as it is. Links
    /// whose recordings may have gaps are left for their next turn.
    pub fn renew(&self, backend: &Arc<dyn Backend>) {
        if !self.0.launcher.holds() {
            return;
        }
        let name = &backend.descriptor().name;
        for (_, link) in self.0.all.lock().iter().filter(|(of, _)| of == name) {
            link.renew(backend);
        }
    }
}
