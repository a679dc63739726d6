//! A turn's reply, shared by all tasks that write to it while the turn runs.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Reply;

/// The reply of a turn. It is taken once, to deliver the answer.
pub(crate) struct ReplyHandle(Mutex<Option<Box<dyn Reply>>>);

impl ReplyHandle {
    pub(crate) fn new(reply: Box<dyn Reply>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(reply))))
    }

    /// Calls `work` with the reply, unless the reply was taken.
    pub(crate) fn with(&self, work: impl FnOnce(&mut dyn Reply)) {
        if let Some(reply) = self.0.lock().as_mut() {
            work(&mut **reply);
        }
    }

    /// Takes the reply to finish it.
    pub(crate) fn take(&self) -> Option<Box<dyn Reply>> {
        self.0.lock().take()
    }
}
