//! A gate with which a test delays the model.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::PATIENCE;

/// Delays a reply until the test opens the gate. Clones are the same gate. Each opening lets one
/// reply pass.
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

    /// Waits until a reply has reached the gate. Everything before the gate has then been passed to
    /// the connection.
    pub async fn reached(&self) {
        let seen = tokio::time::timeout(PATIENCE, self.reached.acquire()).await;
        seen.expect("no reply reached the gate").expect("gates are never closed for good").forget();
    }

    /// Lets one reply continue.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.expect("gates are never closed for good").forget();
    }
}
