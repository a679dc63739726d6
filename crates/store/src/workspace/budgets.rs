//! `budgets.md`: the operator's caps. `docs/budgets.md` has the format.
//!
//! A changed file with a fault does not replace the earlier content, because a cap could be missing.

use std::path::Path;
use std::sync::Arc;

use super::FileError;
use super::budget_names::KnownNames;
use super::followed::{FollowedFile, kept_copy};
use super::operator_file::OperatorFile;
use aetheel_model::budget::BudgetRules;

/// The file `budgets.md`. Clones share the content that was read.
#[derive(Clone, Debug)]
pub struct BudgetFile(OperatorFile<BudgetRules>);

impl BudgetFile {
    pub(super) const NAME: &str = "budgets.md";

    /// Names the file in a configuration folder. Does not read it yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let file = FollowedFile::new(folder.join(Self::NAME), BudgetRules::parse)
            .keeping_good(|rules| &rules.faults, kept_copy(folder, Self::NAME));
        Self(file.into())
    }

    /// Makes sure that the file was read completely or does not exist. Returns its faults, because
    /// of which it is not in force, and whether earlier caps are in force instead. Without these,
    /// the gateway must not start with faults. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if the file exists but cannot be read.
    pub fn require(&self) -> Result<(Vec<String>, bool), FileError> {
        let mut file = self.0.lock();
        file.require()?;
        Ok((file.last_faults().to_vec(), !file.value().caps.is_empty()))
    }

    /// Returns the faults because of which the present content is not in force.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        self.0.lock().last_faults().to_vec()
    }

    /// Refuses contents that name projects, backends or schedules which do not exist, from now on.
    /// Returns the names that the present content has, and whether earlier caps are in force
    /// instead. Blocks.
    #[must_use]
    pub fn check_names(&self, known: KnownNames) -> (Vec<String>, bool) {
        let mut file = self.0.lock();
        file.add_check(move |rules| known.faults(rules));
        (file.last_faults().to_vec(), !file.value().caps.is_empty())
    }

    /// Returns the caps, read again if the file changed.
    pub async fn rules(&self) -> Arc<BudgetRules> {
        self.0.refresh().await.0
    }

    /// Returns the caps in force, and the name of the file that contains them.
    pub(super) fn in_force(&self) -> (Arc<BudgetRules>, String) {
        let file = self.0.lock();
        (file.value(), file.in_force().1)
    }

    /// Returns whether the file became empty or was deleted since the last call.
    #[must_use]
    pub fn take_emptied(&self) -> bool {
        self.0.lock().take_emptied()
    }

    /// Saves a copy of each later content without faults for the next start.
    pub(super) fn update_copy(&self) {
        self.0.lock().update_copy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_damaged_file_does_not_replace_the_caps_and_a_corrected_one_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("budgets.md");
        let file = BudgetFile::new(folder.path());
        assert_eq!(file.require().expect("no file"), (vec![], false));
        assert!(file.rules().await.caps.is_empty());
        std::fs::write(&path, "## all\n- cap: $5 a day\n").expect("written");
        assert_eq!(file.rules().await.caps.len(), 1);
        std::fs::write(&path, "## all\n- cap: five dollars\n").expect("written");
        assert_eq!(file.rules().await.caps.len(), 1, "the last good content");
        std::fs::write(&path, "## all\n- cap: $5 a day\n- cap: 3 turns a day\n").expect("written");
        assert_eq!(file.rules().await.caps.len(), 2);
        std::fs::remove_file(&path).expect("removed");
        while !file.rules().await.caps.is_empty() {}
        assert!(file.take_emptied());
    }
}
