//! How far the program is: starting, ready, draining.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Prompts cannot come yet.
    Starting,
    /// Prompts are taken.
    Ready,
    /// What was accepted is finished, nothing new is taken.
    Draining,
}

/// The phase, seen by all who hold a clone.
#[derive(Clone, Debug, Default)]
pub struct Phases(Arc<AtomicU8>);

impl Phases {
    /// Says how far the program is now.
    pub fn enter(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }

    /// How far it is.
    pub fn now(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }
}
