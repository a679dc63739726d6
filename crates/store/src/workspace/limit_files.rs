//! The files with limits: `budgets.md` and `channels.md`.
//!
//! If one of them has a fault, its last content without faults stays in force, also after a restart.

use std::path::Path;
use std::sync::Arc;

use super::followed::FollowedFile;
use super::{BudgetFile, Channels, FileError, Workspace, WorkspaceInner, kept_copy};

/// Returns the file `channels.md`, which is not read yet.
pub(super) fn channels_file(folder: &Path) -> FollowedFile<Channels> {
    FollowedFile::new(folder.join("channels.md"), Channels::parse)
        .keeping_good(|read| &read.faults, kept_copy(folder, "channels.md"))
}

/// Returns the same as [`LimitFiles::channels_faults`] for a folder that no gateway opened. Blocks.
///
/// # Errors
/// [`FileError`] if the file exists but cannot be read.
pub fn faults_of_channels(folder: &Path) -> Result<(Vec<String>, bool), FileError> {
    let mut file = channels_file(folder);
    file.require()?;
    Ok(faults_of(&file))
}

fn faults_of(file: &FollowedFile<Channels>) -> (Vec<String>, bool) {
    (file.last_faults().to_vec(), file.value().lanes().next().is_some())
}

/// The files with limits. Their last contents without faults stay in force.
#[derive(Clone, Debug)]
pub struct LimitFiles {
    pub(super) workspace: Arc<WorkspaceInner>,
    pub(super) budgets: BudgetFile,
}

impl LimitFiles {
    /// Returns the files of a configuration folder.
    #[must_use]
    pub fn of(workspace: &Workspace) -> Self {
        Self { workspace: Arc::clone(&workspace.inner), budgets: workspace.budgets.clone() }
    }

    /// Returns the faults because of which the present `channels.md` is not in force, and whether an
    /// earlier content with settings is in force instead.
    #[must_use]
    pub fn channels_faults(&self) -> (Vec<String>, bool) {
        faults_of(&self.workspace.channels.lock())
    }

    /// Saves a copy of each later content without faults, so that limits survive a restart. Blocks.
    pub fn keep(&self) {
        self.workspace.channels.lock().update_copy();
        self.budgets.update_copy();
    }

    /// Returns the files that became empty or were deleted since the last call.
    #[must_use]
    pub fn take_emptied(&self) -> Vec<&'static str> {
        let channels = self.workspace.channels.lock().take_emptied().then_some("channels.md");
        let budgets = self.budgets.take_emptied().then_some(BudgetFile::NAME);
        budgets.into_iter().chain(channels).collect()
    }
}
