//! The previous messages of a lane, for an agent whose session is on another machine.

use crate::deps::DispatcherDeps;
use aetheel_model::event::Event;
use aetheel_model::prompt::{self, Expansion};

/// Returns the last messages before an event as a quotation without secrets. Returns `None` if
/// there are no messages or they cannot be read now.
pub(crate) async fn recap(
    deps: &DispatcherDeps,
    event: &Event,
    expansion: &Expansion,
) -> Option<String> {
    let said = deps.outlet.recap(event).await;
    let said = said.into_iter().map(|said| (said.author, deps.redactor.redact(said.text)));
    let said: Vec<(Option<String>, String)> = said.collect();
    prompt::recap(&said, event.continues.is_some(), expansion)
}
