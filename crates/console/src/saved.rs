//! `state/console.md`: the prompts that waited when a person left the console. The next console at a
//! terminal continues with them.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aetheel_model::event::{Event, EventKind, NewEvent};

const HEADING: &str = "# Prompts of the console

These prompts waited when the console was left. The next console at a terminal continues with them. If you remove a line, it does not.

";

/// The file with the prompts.
#[derive(Clone, Debug)]
pub(crate) struct SavedPrompts(PathBuf);

impl SavedPrompts {
    /// Returns the file beside the history of the console.
    pub(crate) fn beside(history: &Path) -> Self {
        Self(history.with_file_name("console.md"))
    }

    /// Saves prompts, in addition to those of other consoles.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn save(&self, events: Vec<Event>) -> io::Result<()> {
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
    pub(crate) fn take(&self) -> Vec<NewEvent> {
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

/// Returns the event for the next process, in which all of them are younger than what it continues.
fn again(event: Event) -> NewEvent {
    let NewEvent { attached, quoted, key, lane, origin, prompt, continues, .. } = event.request;
    let continues = continues.map(|_| 0);
    let again = NewEvent::new(EventKind::Message, lane, origin, prompt);
    NewEvent { attached, quoted, continues, key, ..again }
}
