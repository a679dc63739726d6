//! Exports and imports the lines of the state files about lanes that move to another machine.

use super::{BindingsError, Workspace};
use aetheel_model::event::{Lane, LaneFilter};

const SESSIONS: &str = "sessions.md";
const HISTORY: &str = "history.md";
const AGENT_SCHEDULES: &str = "agent-schedules.md";

impl Workspace {
    /// Returns the lines about some lanes, for each state file except `discord.md`, which is
    /// exported separately.
    pub async fn export_lanes(&self, lanes: LaneFilter) -> Vec<(String, String)> {
        let sessions = self.bindings.lines_of(lanes.clone()).await;
        let history = self.history.lines_of(lanes.clone()).await;
        let schedules = self.agent_schedules.lines_of(lanes).await;
        vec![
            (SESSIONS.to_owned(), sessions),
            (HISTORY.to_owned(), history),
            (AGENT_SCHEDULES.to_owned(), schedules),
        ]
    }

    /// Forgets the lines that [`Workspace::export_lanes`] returned, because another machine serves
    /// the lanes now.
    ///
    /// # Errors
    /// [`BindingsError::File`] if a file cannot be read or written. The call can be repeated.
    pub async fn forget_lanes(&self, lanes: LaneFilter) -> Result<(), BindingsError> {
        self.bindings.forget_all(lanes.clone()).await?;
        self.history.forget_all(lanes.clone()).await?;
        Ok(self.agent_schedules.forget_all(lanes).await?)
    }

    /// Returns the lanes that the state files have lines about.
    pub async fn lanes(&self) -> Vec<Lane> {
        let mut lanes = self.bindings.lanes().await;
        lanes.extend(self.history.lanes().await);
        lanes.extend(self.agent_schedules.lanes().await);
        lanes.sort();
        lanes.dedup();
        lanes
    }

    /// Imports state files of another machine, or some lines of them. Existing entries stay, and
    /// other files are ignored. The sessions stay on the other machine; [`super::Binding::moved`]
    /// records that there was one. Repeating the call changes nothing.
    ///
    /// # Errors
    /// [`BindingsError::File`] if a file cannot be read or written. The call can be repeated.
    pub async fn import(&self, files: &[(String, String)]) -> Result<(), BindingsError> {
        for (name, lines) in files {
            match name.as_str() {
                SESSIONS => self.bindings.import(lines).await?,
                HISTORY => self.history.import(lines).await?,
                AGENT_SCHEDULES => self.agent_schedules.import(lines).await?,
                _ => {}
            }
        }
        Ok(())
    }
}
