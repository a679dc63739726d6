//! `state/console.md`: the prompts that waited when a person left the console. The next console at a
//! terminal continues with them.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::outlet::ConsoleState;
use crate::dispatch::Dispatcher;
use crate::event::{Event, EventKind, Lane, NewEvent};
use crate::plain::{counted, one_line};

const HEADING: &str = "# Prompts of the console

These prompts waited when the console was left. The next console at a terminal continues with them. If you remove a line, it does not.

";

/// The file with the prompts.
#[derive(Clone, Debug)]
pub(super) struct KeptPrompts(PathBuf);

impl KeptPrompts {
    /// Returns the file beside the history of the console.
    pub(super) fn beside(history: &Path) -> Self {
        Self(history.with_file_name("console.md"))
    }

    /// Saves prompts, in addition to those of other consoles.
    ///
    /// # Errors
    /// The file cannot be written.
    fn save(&self, events: Vec<Event>) -> io::Result<()> {
        let mut file =
            fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&self.0)?;
        let mut text = if file.metadata()?.len() == 0 { HEADING.to_owned() } else { String::new() };
        for event in events {
            text.push_str(&format!("- {}\n", serde_json::to_string(&again(event))?));
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// Returns the saved prompts, and removes them from the file. Lines that cannot be read are left
    /// out, with a warning.
    fn take(&self) -> Vec<NewEvent> {
        let Ok(text) = fs::read_to_string(&self.0) else { return Vec::new() };
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(file = %self.0.display(), %error, "cannot remove the prompts of the last console, so they are not answered");
            return Vec::new();
        }
        let lines = text.lines().filter_map(|line| line.strip_prefix("- "));
        let read = lines.filter_map(|line| {
            let read = serde_json::from_str(line);
            read.inspect_err(|error| tracing::warn!(file = %self.0.display(), %error, line, "a prompt of the last console cannot be read")).ok()
        });
        read.collect()
    }
}

/// Submits the prompts that waited when the last console was left. Returns the numbers of accepted and
/// of refused ones.
pub(super) fn submit(dispatcher: &Dispatcher, shared: &ConsoleState) -> (u32, u32) {
    let (mut submitted, mut failed) = (0, 0);
    for event in shared.kept.iter().flat_map(KeptPrompts::take) {
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
pub(super) fn save_waiting(dispatcher: &Dispatcher, shared: &ConsoleState) {
    let Some(kept) = &shared.kept else { return };
    let waiting = dispatcher.turns.take_waiting(&Lane::Console);
    if waiting.is_empty() {
        return;
    }
    let count = waiting.len();
    match kept.save(waiting) {
        Ok(()) => shared.print_note(&words(count)),
        Err(error) => {
            tracing::error!(count, %error, "cannot save the prompts that wait in state/console.md; they are lost");
        }
    }
}

/// Returns the words about prompts that were kept.
fn words(count: usize) -> String {
    let verb = if count == 1 { "waits" } else { "wait" };
    let them = if count == 1 { "it" } else { "them" };
    format!("{} {verb}; the next console here continues with {them}", counted(count, "prompt"))
}

/// Returns the event for the next process, in which all of them are younger than what it continues.
fn again(event: Event) -> NewEvent {
    NewEvent {
        attached: event.attached,
        quoted: event.quoted,
        continues: event.continues.map(|_| 0),
        key: event.key,
        ..NewEvent::new(EventKind::Message, event.lane, event.origin, event.prompt)
    }
}
