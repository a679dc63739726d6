//! Which messages were seen lately, so that none is answered twice.

use std::collections::{HashSet, VecDeque};

/// Message ids remembered.
pub(super) const IDS_KEPT: usize = 4_096;

/// The ids of the latest messages, so many and no more.
#[derive(Debug, Default)]
pub(super) struct Recent {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Recent {
    pub(super) fn has(&self, id: u64) -> bool {
        self.known.contains(&id)
    }

    /// Takes an id in; false when it was there.
    pub(super) fn is_new(&mut self, id: u64) -> bool {
        if !self.known.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > IDS_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_new_once_and_memory_is_bounded() {
        let mut recent = Recent::default();
        for id in 0..10_000 {
            assert!(recent.is_new(id));
            assert!(!recent.is_new(id));
        }
        assert_eq!(recent.known.len(), IDS_KEPT);
        assert!(recent.has(9_999) && !recent.has(0));
    }
}
