//! The system prompt of a lane's agent, and the notes that it leaves for later turns.

use super::ChannelContext;
use aetheel_model::event::Lane;
use aetheel_model::prompt::{self, Noting};
use aetheel_store::workspace::{LaneSettings, Place, memory_place, noted};

impl ChannelContext {
    /// The system prompt of a lane, from files read at this moment. Logs warnings about them that
    /// were not there the time before: they are read for every event.
    pub(crate) async fn system_prompt(&self, lane: &Lane, settings: &LaneSettings) -> String {
        let place = self.memory_of(lane, settings);
        let documents = self.parts.workspace.read_in(&place).await;
        let noting = match &place {
            Place::Operators => Noting::Operators,
            Place::Here { called, .. } => Noting::Here(called),
            Place::Nowhere => Noting::Nowhere,
        };
        let assembled = prompt::assemble(&documents, noting);
        let mut known = self.document_warnings.lock();
        for warning in assembled.warnings.iter().filter(|warning| !known.contains(warning)) {
            tracing::warn!("{warning}");
        }
        *known = assembled.warnings;
        assembled.text
    }

    /// Whose memory a lane has.
    fn memory_of(&self, lane: &Lane, settings: &LaneSettings) -> Place {
        // A thread has that of its channel.
        memory_place(self.parent_of(lane).as_ref().unwrap_or(lane), settings)
    }

    /// Moves a final memory block of the answer to the memory of the lane; each line says when and
    /// in whose turn.
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
            (Place::Nowhere, _) => {
                notices.push(
                    "What should be remembered was left out: nothing is noted here.".to_owned(),
                );
                return (visible, notices);
            }
            // The operator's own words in the operator's own file.
            (Place::Operators, Lane::Console) => memory.to_owned(),
            _ => {
                let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
                noted(memory, &prompt::plain_name(who.unwrap_or(&lane.to_string())), &date)
            }
        };
        match self
            .parts
            .workspace
            .append_memory_in(&place, &self.parts.redactor.clean(memory))
            .await
        {
            Ok(()) => (visible, notices),
            Err(error) => {
                tracing::error!(%error, "cannot append to the memory; the block stays in the answer");
                notices.push("What should be remembered could not be saved.".to_owned());
                (text, notices)
            }
        }
    }
}
