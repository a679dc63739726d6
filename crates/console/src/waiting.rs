//! Hands the prompts that wait when a person leaves the console to the next console.

use crate::outlet::ConsoleState;
use crate::saved::SavedPrompts;
use aetheel_dispatch::Dispatcher;
use aetheel_model::event::Lane;
use aetheel_model::plain::{counted, one_line};

/// Submits the prompts that waited when the last console was left. Returns the numbers of accepted and
/// of refused ones.
pub(crate) fn submit(dispatcher: &Dispatcher, shared: &ConsoleState) -> (u32, u32) {
    let (mut submitted, mut failed) = (0, 0);
    for event in shared.saved.iter().flat_map(SavedPrompts::take) {
        let prompt = one_line(&event.prompt);
        match dispatcher.intake.submit(event) {
            Ok(_) => {
                submitted += 1;
                shared.print_note(&format!("continued from the last console: {prompt}"));
            }
            Err(refusal) => {
                failed += 1;
                // Ignored: without stderr there is nobody to report to.
                let _ = shared.report(&format!("✗ {prompt}: {refusal}"));
            }
        }
    }
    (submitted, failed)
}

/// Saves the prompts that wait for the next console at a terminal.
pub(crate) fn save(dispatcher: &Dispatcher, shared: &ConsoleState) {
    let Some(saved) = &shared.saved else { return };
    let waiting = dispatcher.turns.take_waiting(&Lane::Console);
    if waiting.is_empty() {
        return;
    }
    let count = waiting.len();
    match saved.save(waiting) {
        Ok(()) => shared.print_note(&words(count)),
        Err(error) => {
            tracing::error!(count, %error, "cannot save the prompts that wait in state/console.md; they are lost");
        }
    }
}

/// Returns the words about prompts that were saved.
fn words(count: usize) -> String {
    let (verb, them) = if count == 1 { ("waits", "it") } else { ("wait", "them") };
    format!("{} {verb}; the next console here continues with {them}", counted(count, "prompt"))
}
