//! Exports and imports the lines of the state files about lanes that move to another machine.

use super::bindings::SavedBinding;
use super::history::PastConversation;
use super::state_file::StateEntry as _;
use super::state_file::lanes::{forget, import, lanes_of, lines_of};
use super::{AgentSchedule, FileError, WorkspaceState};
use aetheel_model::event::{Lane, LaneFilter};

impl WorkspaceState {
    /// Returns the lines about some lanes, for each state file except `discord.md`, which is
    /// exported separately.
    pub async fn export_lanes(&self, lanes: LaneFilter) -> Vec<(String, String)> {
        let sessions = lines_of(self.bindings.file(), lanes.clone()).await;
        let history = lines_of(self.history.file(), lanes.clone()).await;
        let schedules = lines_of(&self.agent_schedules, lanes).await;
        vec![
            (SavedBinding::FILE.to_owned(), sessions),
            (PastConversation::FILE.to_owned(), history),
            (AgentSchedule::FILE.to_owned(), schedules),
        ]
    }

    /// Forgets the lines that [`WorkspaceState::export_lanes`] returned, because another machine serves
    /// the lanes now.
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be read or written. The call can be repeated.
    pub async fn forget_lanes(&self, lanes: LaneFilter) -> Result<(), FileError> {
        forget(self.bindings.file(), lanes.clone()).await?;
        forget(self.history.file(), lanes.clone()).await?;
        forget(&self.agent_schedules, lanes).await
    }

    /// Returns the lanes that the state files have lines about.
    pub async fn lanes(&self) -> Vec<Lane> {
        let mut lanes = lanes_of(self.bindings.file()).await;
        lanes.extend(lanes_of(self.history.file()).await);
        lanes.extend(lanes_of(&self.agent_schedules).await);
        lanes.sort();
        lanes.dedup();
        lanes
    }

    /// Imports state files of another machine, or some lines of them. Existing entries stay, and
    /// other files are ignored. The sessions stay on the other machine; [`super::Binding::moved`]
    /// records that there was one. Repeating the call changes nothing.
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be read or written. The call can be repeated.
    pub async fn import(&self, files: &[(String, String)]) -> Result<(), FileError> {
        for (name, lines) in files {
            match name.as_str() {
                SavedBinding::FILE => import(self.bindings.file(), lines).await?,
                PastConversation::FILE => import(self.history.file(), lines).await?,
                AgentSchedule::FILE => import(&self.agent_schedules, lines).await?,
                _ => {}
            }
        }
        Ok(())
    }
}
