//! The reply of a turn, for all who write to it while the turn runs.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Reply;

/// The reply of a turn, shared with whoever answers its questions while it runs.
pub(crate) struct ReplyHandle(Mutex<Option<Box<dyn Reply>>>);

impl ReplyHandle {
    pub(crate) fn new(reply: Box<dyn Reply>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(reply))))
    }

    /// Does something with the reply, unless it was taken.
    pub(crate) fn with(&self, work: impl FnOnce(&mut dyn Reply)) {
        if let Some(reply) = self.0.lock().as_mut() {
            work(&mut **reply);
        }
    }

    /// Takes the reply, for its end.
    pub(crate) fn take(&self) -> Option<Box<dyn Reply>> {
        self.0.lock().take()
    }
}
