//! The system prompt of a lane's agent, and the notes that the agent leaves for later turns.

use super::ChannelContext;
use aetheel_model::event::Lane;
use aetheel_model::plain::with_causes;
use aetheel_model::prompt::{self, MemoryTarget};
use aetheel_store::workspace::{LaneSettings, MemoryLocation, format_notes, memory_place};

impl ChannelContext {
    /// Returns the system prompt of a lane, from files that are read now. Logs a warning about the
    /// files only if the previous call did not log it, because they are read for every event.
    pub(crate) async fn system_prompt(&self, lane: &Lane, settings: &LaneSettings) -> String {
        let place = self.memory_of(lane, settings);
        let documents = self.deps.workspace.read_documents_in(&place).await;
        let noting = match &place {
            MemoryLocation::OperatorFile => MemoryTarget::OperatorFile,
            MemoryLocation::NotesFile { called, .. } => MemoryTarget::NotesOf(called),
            MemoryLocation::Discarded => MemoryTarget::Disabled,
        };
        let assembled = prompt::assemble(&documents, noting);
        let mut known = self.document_warnings.lock();
        for warning in assembled.warnings.iter().filter(|warning| !known.contains(warning)) {
            tracing::warn!("{warning}");
        }
        *known = assembled.warnings;
        assembled.text
    }

    /// Returns the memory that a lane uses.
    fn memory_of(&self, lane: &Lane, settings: &LaneSettings) -> MemoryLocation {
        // A thread uses the memory of its channel.
        memory_place(self.parents.of(lane).as_ref().unwrap_or(lane), settings)
    }

    /// Moves a memory block at the end of the answer into the memory of the lane. Each line gets
    /// the date and the name of the person whose turn wrote it. Returns the rest of the answer and
    /// its notices.
    pub(crate) async fn remember(
        &self,
        lane: &Lane,
        who: Option<&str>,
        text: String,
        mut notices: Vec<String>,
    ) -> (String, Vec<String>) {
        let (visible, memory) = prompt::extract_memory(&text);
        let Some(memory) = memory else { return (text, notices) };
        let (_, settings) = self.backend_of(lane).await;
        let place = self.memory_of(lane, &settings);
        let visible = visible.to_owned();
        let memory = match (&place, lane) {
            (MemoryLocation::Discarded, _) => {
                notices.push("The agent's note was dropped: notes are disabled here.".to_owned());
                return (visible, notices);
            }
            // At the console, the author is the operator, and the file is the operator's own.
            (MemoryLocation::OperatorFile, Lane::Console) => memory.to_owned(),
            _ => {
                let date = self.deps.clock.now().strftime("%Y-%m-%d").to_string();
                format_notes(memory, &prompt::plain_name(who.unwrap_or(&lane.to_string())), &date)
            }
        };
        match self.deps.workspace.append_memory_in(&place, &self.deps.redactor.redact(memory)).await
        {
            Ok(()) => (visible, notices),
            Err(error) => {
                tracing::error!(error = %with_causes(&error), "cannot append to the memory; the block stays in the answer");
                notices.push("The agent's note could not be saved.".to_owned());
                (text, notices)
            }
        }
    }
}
