//! The files with limits: `budgets.md` and `channels.md`.

use std::sync::Arc;

use super::{BudgetFile, Workspace, WorkspaceInner};

/// The files with limits. Their last contents without faults stay in force.
#[derive(Clone, Debug)]
pub struct LimitFiles {
    workspace: Arc<WorkspaceInner>,
    budgets: BudgetFile,
}

impl LimitFiles {
    /// Returns the files of a configuration folder.
    #[must_use]
    pub fn of(workspace: &Workspace) -> Self {
        Self { workspace: Arc::clone(&workspace.inner), budgets: workspace.budgets.clone() }
    }

    /// Returns the faults because of which the present `channels.md` is not in force, and whether an
    /// earlier content is in force instead.
    #[must_use]
    pub fn channels_faults(&self) -> (Vec<String>, bool) {
        let channels = self.workspace.channels.lock();
        (channels.last_faults().to_vec(), channels.has_good())
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
