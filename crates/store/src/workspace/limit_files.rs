//! The files with limits: `budgets.md` and `channels.md`.
//!
//! If one of them has a fault, its last content without faults stays in force, also after a restart.

use std::path::Path;

use super::followed::{FollowedFile, kept_copy};
use super::operator_file::OperatorFile;
use super::{BudgetFile, Channels, FileError};

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
    pub(super) channels: OperatorFile<Channels>,
    pub(super) budgets: BudgetFile,
}

impl LimitFiles {
    /// Returns the faults because of which the present `channels.md` is not in force, and whether an
    /// earlier content with settings is in force instead.
    #[must_use]
    pub fn channels_faults(&self) -> (Vec<String>, bool) {
        faults_of(&self.channels.lock())
    }

    /// Saves a copy of each later content without faults, so that limits survive a restart. Blocks.
    pub fn keep(&self) {
        self.channels.lock().update_copy();
        self.budgets.update_copy();
    }

    /// Returns the files that became empty or were deleted since the last call.
    #[must_use]
    pub fn take_emptied(&self) -> Vec<&'static str> {
        let channels = self.channels.lock().take_emptied().then_some("channels.md");
        let budgets = self.budgets.take_emptied().then_some(BudgetFile::NAME);
        budgets.into_iter().chain(channels).collect()
    }
}
