//! Connects the writer of the journal with the database of a cluster.

use std::io;

use tokio::runtime::Handle;

use super::refused;
use crate::startup::StartRefusal;
use aetheel_cluster::{ClusterError, JournalLines};
use aetheel_store::workspace::{FileError, LineStore};

/// Store of journal lines in the database. Its methods block, because a thread of its own writes
/// the journal.
pub(super) struct SharedStore {
    pub(super) lines: JournalLines,
    pub(super) runtime: Handle,
}

impl LineStore for SharedStore {
    fn append(&mut self, lines: &str) -> io::Result<()> {
        self.runtime.block_on(self.lines.append(lines)).map_err(io::Error::other)
    }

    fn replace(&mut self, lines: &str) -> io::Result<()> {
        self.runtime.block_on(self.lines.replace(lines)).map_err(io::Error::other)
    }

    fn name(&self) -> String {
        "the database of the cluster".to_owned()
    }
}

/// Converts a failure to open the journal. If the database cannot be reached, the exit code asks
/// the service manager for another start; otherwise a person has to repair the journal.
pub(super) fn journal_refused(error: &FileError) -> StartRefusal {
    let source = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref)
        .and_then(|source| source.downcast_ref::<ClusterError>());
    match source {
        Some(error) => refused(error.clone()),
        None => StartRefusal::of_file(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit;
    use aetheel_store::workspace::Workspace;

    struct Failing(ClusterError);

    impl LineStore for Failing {
        fn append(&mut self, _lines: &str) -> io::Result<()> {
            Err(io::Error::other(self.0.clone()))
        }

        fn replace(&mut self, _lines: &str) -> io::Result<()> {
            Err(io::Error::other(self.0.clone()))
        }

        fn name(&self) -> String {
            "the database of a test".to_owned()
        }
    }

    #[tokio::test]
    async fn a_node_that_loses_its_lease_while_it_starts_is_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).await.unwrap();
        let cases = [
            (ClusterError::Fenced, exit::TEMPORARY),
            (ClusterError::Away("it does not answer".to_owned()), exit::TEMPORARY),
            (ClusterError::Refused("no such table".to_owned()), exit::UNAVAILABLE),
        ];
        for (error, code) in cases {
            let store = Box::new(Failing(error));
            let opened = workspace.journal_in(String::new(), store, 1 << 32).await;
            let refused = journal_refused(&opened.expect_err("it cannot be written"));
            assert_eq!(refused.code, code, "{:?}", refused.faults);
        }
    }
}
