//! `budgets.md`: the operator's caps. `docs/budgets.md` has the format.
//!
//! A changed file with a fault does not replace the earlier content, because a cap could be missing.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::followed::FollowedFile;
use super::{FileError, blocking};
use aetheel_model::budget::BudgetRules;

/// The file `budgets.md`. Clones share the content that was read.
#[derive(Clone, Debug)]
pub struct BudgetFile(Arc<Mutex<FollowedRules>>);

#[derive(Debug)]
struct FollowedRules {
    file: FollowedFile<BudgetRules>,
    /// The last content without faults.
    in_force: Arc<BudgetRules>,
}

impl BudgetFile {
    /// Names the file in a configuration folder. Does not read it yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let file = FollowedFile::new(folder.join("budgets.md"), BudgetRules::parse);
        Self(Arc::new(Mutex::new(FollowedRules { file, in_force: Arc::default() })))
    }

    /// Makes sure that the file was read completely or does not exist. Returns its faults, with
    /// which the gateway must not start. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if the file exists but cannot be read.
    pub fn require(&self) -> Result<Vec<String>, FileError> {
        let mut followed = self.0.lock();
        followed.file.require()?;
        let read = followed.file.value();
        if read.faults.is_empty() {
            followed.in_force = Arc::clone(&read);
        }
        Ok(read.faults.clone())
    }

    /// Returns the caps, read again if the file changed.
    pub async fn rules(&self) -> Arc<BudgetRules> {
        let this = self.clone();
        blocking(move || {
            let mut followed = this.0.lock();
            if followed.file.refresh() {
                let read = followed.file.value();
                if read.faults.is_empty() {
                    followed.in_force = read;
                } else {
                    for fault in &read.faults {
                        tracing::error!(
                            fault,
                            "budgets.md has a fault; its last content without faults stays in force"
                        );
                    }
                }
            }
            Arc::clone(&followed.in_force)
        })
        .await
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
        assert_eq!(file.require().expect("no file"), [""; 0]);
        assert!(file.rules().await.caps.is_empty());
        std::fs::write(&path, "## all\n- cap: $5 a day\n").expect("written");
        assert_eq!(file.rules().await.caps.len(), 1);
        std::fs::write(&path, "## all\n- cap: five dollars\n").expect("written");
        assert_eq!(file.rules().await.caps.len(), 1, "the last good content");
        std::fs::write(&path, "## all\n- cap: $5 a day\n- cap: 3 turns a day\n").expect("written");
        assert_eq!(file.rules().await.caps.len(), 2);
        std::fs::remove_file(&path).expect("removed");
        assert!(file.rules().await.caps.is_empty());
    }
}
