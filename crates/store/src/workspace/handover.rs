//! Exports and imports the lines of the state files about lanes that move to another machine.

use super::bindings::SavedBinding;
use super::history::PastConversation;
use super::state_file::{StateEntry, StateFile, line_of, parse_entries};
use super::{AgentSchedule, FileError, WorkspaceState};
use aetheel_model::event::{Lane, LaneFilter};

/// An entry about a lane, which moves together with the lane.
pub(super) trait LaneEntry: StateEntry {
    fn lane(&self) -> &Lane;

    /// Returns the entry as another machine continues it, or `None` if the machine ignores it.
    fn arrive(self) -> Option<Self> {
        Some(self)
    }
}

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

pub(super) async fn lines_of<T: LaneEntry>(file: &StateFile<T>, lanes: LaneFilter) -> String {
    file.find(move |entry| lanes(entry.lane())).await.iter().map(line_of).collect()
}

pub(super) async fn lanes_of<T: LaneEntry>(file: &StateFile<T>) -> Vec<Lane> {
    file.read().await.iter().map(|entry| entry.lane().clone()).collect()
}

pub(super) async fn forget<T: LaneEntry>(
    file: &StateFile<T>,
    lanes: LaneFilter,
) -> Result<(), FileError> {
    file.change(move |entries| entries.retain(|_, entry| !lanes(entry.lane()))).await
}

/// Adds the entries of another machine that are not known here.
pub(super) async fn import<T: LaneEntry>(
    file: &StateFile<T>,
    lines: &str,
) -> Result<(), FileError> {
    let imported: Vec<T> = parse_entries(lines);
    file.change(move |entries| {
        for entry in imported.into_iter().filter_map(T::arrive) {
            entries.entry(entry.key()).or_insert(entry);
        }
    })
    .await
}
