//! Entries about lanes, which move to another machine together with the lanes.

use super::{StateEntry, StateFile, line_of, parse_entries};
use crate::workspace::FileError;
use aetheel_model::event::{Lane, LaneFilter};

/// An entry about a lane, which moves together with the lane.
pub(in crate::workspace) trait LaneEntry: StateEntry {
    fn lane(&self) -> &Lane;

    /// Returns the entry as another machine continues it, or `None` if the machine ignores it.
    fn arrive(self) -> Option<Self> {
        Some(self)
    }
}

pub(in crate::workspace) async fn lines_of<T: LaneEntry>(
    file: &StateFile<T>,
    lanes: LaneFilter,
) -> String {
    file.find(move |entry| lanes(entry.lane())).await.iter().map(line_of).collect()
}

pub(in crate::workspace) async fn lanes_of<T: LaneEntry>(file: &StateFile<T>) -> Vec<Lane> {
    file.read().await.iter().map(|entry| entry.lane().clone()).collect()
}

pub(in crate::workspace) async fn forget<T: LaneEntry>(
    file: &StateFile<T>,
    lanes: LaneFilter,
) -> Result<(), FileError> {
    file.change(move |entries| entries.retain(|_, entry| !lanes(entry.lane()))).await
}

/// Adds the entries of another machine that are not known here.
pub(in crate::workspace) async fn import<T: LaneEntry>(
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
