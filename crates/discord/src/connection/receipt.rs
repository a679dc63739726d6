//! The confirmation that an event from Discord was processed and cannot be lost any more.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Confirms to the sender of an event that the event cannot be lost any more: it is saved, refused
/// or not relevant. A receipt that is dropped without [`Receipt::done`] confirms nothing: the node
/// is ending, and its next process must handle the event.
#[derive(Default)]
pub struct Receipt(Option<Arc<ReceiptState>>);

struct ReceiptState {
    open: AtomicUsize,
    done: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Receipt {
    /// Creates a receipt that calls `done` when it is confirmed.
    pub fn new(done: impl FnOnce() + Send + 'static) -> Self {
        let done: Box<dyn FnOnce() + Send> = Box::new(done);
        Self(Some(Arc::new(ReceiptState {
            open: AtomicUsize::new(1),
            done: Mutex::new(Some(done)),
        })))
    }

    /// Returns a receipt whose confirmation has no effect.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Confirms that the event cannot be lost any more.
    pub fn done(self) {
        let Some(parts) = self.0 else { return };
        if parts.open.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(done) = parts.done.lock().take()
        {
            done();
        }
    }

    /// Splits the receipt into `count` parts. It is confirmed when all parts are, and at once if
    /// `count` is 0.
    pub(crate) fn split(self, count: usize) -> Vec<Self> {
        if count == 0 {
            self.done();
            return Vec::new();
        }
        if let Some(parts) = &self.0 {
            parts.open.fetch_add(count - 1, Ordering::SeqCst);
        }
        std::iter::repeat_with(|| Self(self.0.clone())).take(count).collect()
    }
}

impl Debug for Receipt {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receipt").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_confirmed_when_all_parts_are_and_never_if_one_is_dropped() {
        let count = Arc::new(AtomicUsize::new(0));
        let receipt = || {
            let count = Arc::clone(&count);
            Receipt::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
        };
        let given = || count.swap(0, Ordering::SeqCst);
        receipt().done();
        assert_eq!(given(), 1);
        drop(receipt());
        assert_eq!(given(), 0, "the node ended");
        assert!(receipt().split(0).is_empty());
        assert_eq!(given(), 1, "there was nothing to do");
        let mut parts = receipt().split(3);
        let last = parts.pop();
        parts.into_iter().for_each(Receipt::done);
        assert_eq!(given(), 0, "one is open");
        last.into_iter().for_each(Receipt::done);
        assert_eq!(given(), 1);
        let mut parts = receipt().split(2);
        drop(parts.pop());
        parts.into_iter().for_each(Receipt::done);
        assert_eq!(given(), 0, "one part was dropped");
        Receipt::none().split(2).into_iter().for_each(Receipt::done);
    }
}
