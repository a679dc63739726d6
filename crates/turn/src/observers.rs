//! The port to observers. WASM components implement it; in tests, scripted observers do.

use aetheel_model::observed::ObservedEvent;

/// The observers that are loaded now.
pub trait TurnObservers: Send + Sync {
    /// Returns whether no observer is loaded.
    fn is_empty(&self) -> bool;

    /// Passes an event to all observers. Returns at once: an observer that is too slow loses it.
    fn notify(&self, event: &ObservedEvent);
}

/// No observers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObservers;

impl TurnObservers for NoObservers {
    fn is_empty(&self) -> bool {
        true
    }

    fn notify(&self, _event: &ObservedEvent) {}
}
