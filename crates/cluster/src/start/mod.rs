//! The start of a node with the state of its machine: continues with its journal from the database,
//! and imports the journal and the state files that the machine had without a cluster.
//!
//! | module | content |
//! |---|---|
//! | [`identity`] | the identity of this machine |
//! | [`error`] | the reasons why a node cannot continue with its state |
//! | [`journal_store`] | the writer of the journal, with the database as its store |
//! | [`state_files`] | copies the state files to the database |

mod error;
mod identity;
mod journal_store;
mod state_files;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

pub use self::error::LocalStateError;
pub use self::identity::{create_identity, read_identity};
use self::journal_store::{SharedStore, journal_error};
pub(crate) use self::state_files::{CHAT_FILE, StateFiles};
use crate::{Cluster, ClusterError, JoinKind, JournalLines};
use aetheel_model::event::Lane;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_runtime::supervisor;
use aetheel_store::disk::replace;
use aetheel_store::workspace::{Journal, Workspace};

/// The journal of a machine without a cluster.
const LOCAL_JOURNAL: &str = "queue.md";
/// Name of that journal after its lines were imported into a cluster.
const JOINED_JOURNAL: &str = "queue-before-cluster.md";
/// Delay before a failed call of the database is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// The state of this machine, in its folder and in the database of the cluster that it has joined.
pub struct LocalState {
    cluster: Cluster,
    workspace: Workspace,
}

impl LocalState {
    /// Creates the access to the state in `workspace` of a node.
    #[must_use]
    pub fn new(cluster: Cluster, workspace: Workspace) -> Self {
        Self { cluster, workspace }
    }

    /// Opens the journal of this node in the database, and starts to copy the state files to it, so
    /// that another machine can take over the lanes of this one.
    ///
    /// # Errors
    /// Returns a [`LocalStateError`].
    pub async fn open_journal(&self) -> Result<Journal, LocalStateError> {
        let (cluster, workspace) = (&self.cluster, &self.workspace);
        let lines = self.import_journal().await?;
        let text = retry_while_away(async || lines.read().await).await?;
        let store = Box::new(SharedStore { lines, runtime: Handle::current() });
        let opened = workspace.journal_in(text, store, cluster.first_number()).await;
        let journal = opened.map_err(journal_error)?;
        self.forget_moved_lanes(&journal).await?;
        let files = StateFiles::of(cluster, workspace.folder());
        supervisor::spawn("state files", files.mirror_until_lease_ends());
        Ok(journal)
    }

    /// Imports the journal and the state files of this machine into the cluster. No gateway may run
    /// on this machine.
    ///
    /// # Errors
    /// Returns a [`LocalStateError`].
    pub async fn import(&self) -> Result<(), LocalStateError> {
        self.import_journal().await?;
        StateFiles::of(&self.cluster, self.workspace.folder()).mirror_changes().await;
        Ok(())
    }

    /// Exports the journal from the cluster to this machine, the last one, and deletes it from the
    /// cluster. No gateway may run on this machine. Returns the number of lines.
    ///
    /// # Errors
    /// Returns [`LocalStateError`] if other nodes still have data, or if the journal cannot be
    /// written. The cluster then keeps everything.
    pub async fn export(&self) -> Result<usize, LocalStateError> {
        let cluster = &self.cluster;
        let lines = self.import_journal().await?;
        let blockers = retry_while_away(async || cluster.dissolution_blockers().await).await?;
        if !blockers.others.is_empty() {
            return Err(LocalStateError::OtherNodes(blockers.others));
        }
        if blockers.messages > 0 {
            return Err(LocalStateError::WaitingMessages(blockers.messages));
        }
        let text = retry_while_away(async || lines.read().await).await?;
        let path = self.workspace.folder().join("state").join(LOCAL_JOURNAL);
        replace(&path, text.as_bytes())
            .map_err(|source| LocalStateError::JournalFile { path, source })?;
        cluster.dissolve().await?;
        Ok(text.lines().count())
    }

    /// Continues with this node's journal from the database, and imports the journal that its
    /// machine had without a cluster. The lines of a replaced node's state files stay:
    /// [`Self::forget_moved_lanes`] removes those of lanes that another node has.
    async fn import_journal(&self) -> Result<JournalLines, LocalStateError> {
        let (cluster, workspace) = (&self.cluster, &self.workspace);
        let state = workspace.folder().join("state");
        let mut lines = cluster.journal();
        let own = read_local_journal(&state).map_err(LocalStateError::StateFiles)?;
        let text = retry_while_away(async || lines.read().await).await?;
        if cluster.join_kind() == JoinKind::Replaced {
            tracing::warn!(
                node = cluster.name(),
                "another node took over the channels of this one, which starts without channels"
            );
        } else if own.is_some() || cluster.join_kind() == JoinKind::First {
            let lanes = local_lanes(workspace).await;
            retry_while_away(async || cluster.claim(&lanes).await).await?;
        }
        if let Some(own) = own {
            // The lines in the database are newer and contain the results of these events.
            lines.replace(&format!("{own}{text}")).await?;
            std::fs::rename(state.join(LOCAL_JOURNAL), state.join(JOINED_JOURNAL))
                .map_err(LocalStateError::StateFiles)?;
        }
        if cluster.join_kind() != JoinKind::Returning {
            // A node that ends before this point does everything above again.
            retry_while_away(async || cluster.confirm_local_state().await).await?;
        }
        Ok(lines)
    }

    /// Removes the local data of lanes that another node has. The previous process moved them and
    /// ended before it could remove the data, or the other node took over from it.
    async fn forget_moved_lanes(&self, journal: &Journal) -> Result<(), LocalStateError> {
        let (cluster, workspace) = (&self.cluster, &self.workspace);
        let notes = &workspace.state.discord;
        let mut known: BTreeSet<Lane> = workspace.state.lanes().await.into_iter().collect();
        known.extend(journal.open_events().into_iter().map(|entry| entry.event.request.lane));
        known.extend(journal.newer_lanes());
        known.extend(notes.seen().await.into_keys().map(Lane::Channel));
        known.extend(journal.messages().into_iter().map(|(channel, _)| Lane::Channel(channel)));
        let questions = notes.questions().await;
        known.extend(questions.iter().map(|(_, channel, _)| Lane::Channel(*channel)));
        known.retain(|lane| !lane.is_local());
        let known: Vec<Lane> = known.into_iter().collect();
        let mut gone =
            retry_while_away(async || cluster.lanes_of_other_nodes(&known).await).await?;
        // Other nodes may give these back, with turns whose agents still run here.
        let waiting =
            retry_while_away(async || cluster.lanes_waiting_for_this_machine().await).await?;
        gone.retain(|lane| !waiting.iter().any(|row| row.has(lane)));
        let gone = Arc::new(gone);
        if gone.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            lanes = gone.len(),
            "another node has channels of which this one has data; removing the data here"
        );
        for lane in gone.iter() {
            if let Lane::Channel(channel) = lane {
                notes.forget(*channel);
            }
        }
        for (question, channel, _) in &questions {
            if gone.contains(&Lane::Channel(*channel)) {
                notes.close_question(question);
            }
        }
        notes.save().await?;
        let moved = Arc::clone(&gone);
        workspace.state.forget_lanes(Arc::new(move |lane: &Lane| moved.contains(lane))).await?;
        if !journal.forget_lanes(|lane| gone.contains(lane)).await {
            return Err(LocalStateError::JournalLost);
        }
        Ok(())
    }
}

/// Returns the lanes that this machine has data of, as roots. Leaves out the lanes of hooks and of
/// the console, which never move.
async fn local_lanes(workspace: &Workspace) -> Vec<String> {
    let lanes = workspace.state.bindings.lanes().await;
    let channels = workspace.state.discord.seen().await.into_keys().map(Lane::Channel);
    let travels = |lane: &Lane| !matches!(lane, Lane::Hook(_) | Lane::Console);
    let all: BTreeSet<String> =
        lanes.into_iter().chain(channels).filter(travels).map(|lane| lane.to_string()).collect();
    all.into_iter().collect()
}

/// Reads the journal of a machine without a cluster. Returns `None` if there is no such file.
fn read_local_journal(state: &Path) -> io::Result<Option<String>> {
    match read_ordinary(&state.join(LOCAL_JOURNAL), 1 << 30) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Repeats a call while the database cannot be reached. The end of the node's lease ends the wait.
async fn retry_while_away<T>(
    mut ask: impl AsyncFnMut() -> Result<T, ClusterError>,
) -> Result<T, ClusterError> {
    loop {
        match ask().await {
            Err(ClusterError::Away(why)) => {
                tracing::warn!(why, "cannot reach the database of the cluster; trying again");
                tokio::time::sleep(RETRY_DELAY).await;
            }
            answered => return answered,
        }
    }
}
