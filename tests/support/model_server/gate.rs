//! Where a test holds the model back.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::PATIENCE;

/// Holds a reply back until the test opens it. Clones are the same gate; it lets one reply pass.
#[derive(Clone)]
pub struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    /// Makes a gate that is closed.
    pub fn new() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until a reply stands before the gate: everything before it was handed to the
    /// connection.
    pub async fn reached(&self) {
        let seen = tokio::time::timeout(PATIENCE, self.reached.acquire()).await;
        seen.expect("no reply came to the gate").expect("gates are never closed for good").forget();
    }

    /// Lets the reply go on.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.expect("gates are never closed for good").forget();
    }
}
