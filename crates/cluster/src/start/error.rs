//! The reasons why a node cannot continue with the state of its machine.

use std::io;
use std::path::PathBuf;

use crate::ClusterError;
use aetheel_store::workspace::FileError;

/// The reason why a node cannot continue with the state of its machine, or move it.
#[derive(Debug, thiserror::Error)]
pub enum LocalStateError {
    /// The database cannot be used.
    #[error("CLUSTER_URL")]
    Cluster(#[from] ClusterError),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(FileError),
    /// The journal of the machine cannot be read or renamed.
    #[error("cannot take over state files")]
    StateFiles(#[source] io::Error),
    /// The journal cannot be exported.
    #[error("cannot write `{}`, so the cluster keeps everything", .path.display())]
    JournalFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The data of lanes that another node has cannot be removed.
    #[error("cannot remove moved channels")]
    MovedLanes(#[from] FileError),
    /// Other nodes, given by their names, still have data, so the journal cannot be exported.
    #[error(
        "other nodes still have data of the bot: {}; drain them (`aetheel drain NODE`), stop them, and wait until their leases have ended",
        .0.join(", ")
    )]
    OtherNodes(Vec<String>),
    /// So many events wait in the database, so the journal cannot be exported.
    #[error(
        "events of webhooks or schedules that wait in the database: {0}; start this node once more, so that it receives them"
    )]
    WaitingMessages(u64),
    /// The node lost its lease or the database while it started.
    #[error("CLUSTER_URL: the journal cannot be written; this node starts again")]
    JournalLost,
}
