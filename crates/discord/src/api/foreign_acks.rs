//! Interactions that another program with the same bot token acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::warn;

/// Two such interactions within this time are reported. Discord may send a single one twice.
const SPAN: Duration = Duration::from_secs(600);

/// Reports once that another program acknowledges interactions.
#[derive(Debug, Default)]
pub(super) struct ForeignAcks {
    last: Mutex<Option<Instant>>,
    is_reported: AtomicBool,
}

impl ForeignAcks {
    /// Notes an interaction that was acknowledged before this program tried to.
    pub(super) fn note(&self) {
        let before = self.last.lock().replace(Instant::now());
        if before.is_some_and(|at| at.elapsed() < SPAN)
            && !self.is_reported.swap(true, Ordering::Relaxed)
        {
            warn!(
                hint = "stop one of them, or give it the token of another bot; if you know no other, reset the token",
                "another program, perhaps on another machine, uses the same bot token and acknowledges interactions, so people get two answers to each message"
            );
        }
    }
}
