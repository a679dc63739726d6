//! Connects the writer of the journal with the database of a cluster.

use std::error::Error;
use std::io;

use tokio::runtime::Handle;

use super::LocalStateError;
use crate::{ClusterError, JournalLines};
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

/// Converts a failure to open the journal: returns the error of the database if that is the cause.
pub(super) fn journal_error(error: FileError) -> LocalStateError {
    let of_database = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref)
        .and_then(|source| source.downcast_ref::<ClusterError>())
        .cloned();
    of_database.map_or(LocalStateError::Journal(error), LocalStateError::Cluster)
}

#[cfg(test)]
mod tests {
    use super::*;
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
    async fn a_journal_that_the_database_refuses_keeps_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).await.unwrap();
        for error in [
            ClusterError::Fenced,
            ClusterError::Away("it does not answer".to_owned()),
            ClusterError::Refused("no such table".to_owned()),
        ] {
            let store = Box::new(Failing(error.clone()));
            let opened = workspace.journal_in(String::new(), store, 1 << 32).await;
            let refused = journal_error(opened.expect_err("it cannot be written"));
            assert!(
                matches!(&refused, LocalStateError::Cluster(why) if *why == error),
                "{refused}"
            );
        }
    }
}
