//! The port to observers. WASM components implement it; in tests, scripted observers do.

use aetheel_model::observed::ObservedEvent;

/// The observers that are loaded now.
pub trait TurnObservers: Send + Sync {
    /// Returns whether no observer is loaded.
    fn is_empty(&self) -> bool;

    /// Passes an event to all observers. Returns at once: an observer that is too slow loses it.
    fn notify(&self, event: &ObservedEvent);

    /// Passes a use of a tool from before a restart of the gateway to those that need it to
    /// understand later events. The observers of the previous process got it.
    fn restore(&self, event: &ObservedEvent) {
        let _ = event;
    }
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
