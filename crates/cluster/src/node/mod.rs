//! A running node of a cluster: links the database to the adapter, the dispatcher and the
//! schedules. Decides nothing about turns.
//!
//! Calls [`Cluster`] without a port in between: the rules of this module hold because of
//! PostgreSQL's transactions, clock and notifications, and tests use a real server.
//!
//! | module | subject |
//! |---|---|
//! | [`chat_mail`] | sends events of the adapter to other nodes |
//! | [`inbox`] | receives the messages of other nodes |
//! | [`lane_moves`] | takes over lanes from other nodes, and gives lanes away |
//! | [`router`] | sends events of webhooks and schedules to the node that has the lane |
//! | [`digests`] | digests of files and components that should be the same on all nodes |
//! | [`returning_lanes`] | lanes that other nodes give back, because their agents continued here |
//! | [`leadership`] | the login to the chat platform and the schedules |
//! | [`waiting_lanes`] | lanes that stay closed until agents on another machine have ended |

mod chat_mail;
mod digests;
mod inbox;
mod lane_moves;
mod leadership;
mod returning_lanes;
mod router;
mod waiting_lanes;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::chat_mail::ChatMail;
use self::inbox::{InFlightMessages, InboxReader};
use self::lane_moves::LaneMover;
pub use self::leadership::LeaderFile;
use self::returning_lanes::ReturningLanes;
use self::router::ClusterRouter;
use self::waiting_lanes::WaitingLanes;
use crate::retry::until_answered;
use crate::start::StateFiles;
use crate::{Cluster, LaneRow};
use aetheel_dispatch::{ClusterChat, ClusterMail, Dispatcher, LaneTransfer, Recovery, Router};
use aetheel_model::event::Lane;
use aetheel_runtime::lease::Lease;
use aetheel_runtime::supervisor;
use aetheel_store::workspace::Workspace;
use aetheel_turn::Backends;

/// Time for messages that are being processed to finish during a shutdown.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_secs(5);

/// This node of a cluster and its tasks.
pub struct ClusterNode {
    cluster: Cluster,
    /// Ends the program once another node has replaced this one.
    fence: JoinHandle<()>,
    /// Whether this node is the leader.
    leadership: Arc<watch::Sender<bool>>,
    in_flight: InFlightMessages,
    /// The tasks that receive messages and move lanes.
    intake: Vec<JoinHandle<()>>,
    /// Lanes that an earlier process of this node took over and that are still closed.
    waiting: WaitingLanes,
    /// Lanes that other nodes are to give back.
    returning: ReturningLanes,
}

/// The parts of the program that a node connects with the cluster.
pub struct NodeParts<'a> {
    /// The dispatcher, which gets the events of webhooks and schedules from other nodes.
    pub dispatcher: &'a Dispatcher,
    /// The files of the configuration folder.
    pub workspace: &'a Workspace,
    /// The adapter whose channels the nodes divide.
    pub chat: Arc<dyn ClusterChat>,
    /// The backends, which other nodes compare with theirs.
    pub backends: Arc<dyn Backends>,
    /// Largest number of turns that run at the same time.
    pub slots: usize,
}

impl ClusterNode {
    /// Starts two tasks: one passes the end of the node's long lease to `limit_agents`, in
    /// milliseconds of [`boot_ms`](aetheel_runtime::lease::boot_ms), the other one calls `replaced`
    /// once another node has replaced this one.
    ///
    /// `replaced` must end the program without finishing anything, because the other node may
    /// already work in its channels. The agents must end at the time that `limit_agents` gets, even
    /// if the program has ended before.
    #[must_use]
    pub fn start(
        cluster: Cluster,
        limit_agents: impl Fn(u64) + Send + 'static,
        replaced: impl FnOnce() + Send + 'static,
    ) -> Self {
        let lease = cluster.lease();
        let mut until = cluster.turn_lease().watch();
        // Set before the first agent starts.
        limit_agents(*until.borrow_and_update());
        supervisor::spawn_finite("lease of agents", async move {
            while until.changed().await.is_ok() {
                limit_agents(*until.borrow_and_update());
            }
        });
        let fence = supervisor::spawn("fence", async move {
            lease.wait_until_ended().await;
            replaced();
        });
        Self {
            cluster,
            fence,
            leadership: Arc::new(watch::Sender::new(false)),
            in_flight: InFlightMessages::default(),
            intake: Vec::new(),
            waiting: WaitingLanes::default(),
            returning: ReturningLanes::default(),
        }
    }

    /// Continues the events of the previous process, except in lanes in which agents of another
    /// machine may still run. Then reports to the cluster which lanes are to be given back, because
    /// the agents of their turns continue here, and that all other agents of this machine have
    /// ended. Returns the same as [`Recovery::recover`].
    pub async fn recover(&mut self, recovery: &Recovery, transfer: &LaneTransfer) -> bool {
        let cluster = &self.cluster;
        let lanes = until_answered(|| cluster.waiting_lanes()).await.unwrap_or_default();
        let moved = until_answered(|| cluster.lanes_waiting_for_this_machine()).await;
        let continuing = transfer.continuing_lanes();
        let continues = |row: &LaneRow| continuing.iter().any(|lane| row.has(lane));
        let (wanted, lost): (Vec<LaneRow>, Vec<LaneRow>) =
            moved.unwrap_or_default().into_iter().partition(continues);
        let closed = |lane: &Lane| lanes.iter().any(|row| row.has(lane));
        let returning = |lane: &Lane| wanted.iter().any(|row| row.has(lane));
        let (later, saved) = recovery.recover_except(closed, returning).await;
        self.waiting.add(&lanes, later);
        let roots: Vec<String> = wanted.iter().map(|row| row.root.clone()).collect();
        until_answered(|| cluster.report_agents_ended(&roots)).await;
        self.returning = ReturningLanes::new(wanted, lost);
        saved
    }

    /// Returns the lease during which this node may write to the chat platform.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.cluster.lease()
    }

    /// Returns the router that sends events of webhooks and schedules to the node with their lane.
    #[must_use]
    pub fn router(&self, workspace: &Workspace) -> Arc<dyn Router> {
        Arc::new(ClusterRouter { cluster: self.cluster.clone(), workspace: workspace.clone() })
    }

    /// Returns the access of the adapter to the other nodes.
    #[must_use]
    pub fn mail(&self) -> Arc<dyn ClusterMail> {
        Arc::new(ChatMail(self.cluster.clone()))
    }

    /// Starts the tasks that exchange messages and lanes with other nodes, and the one that tries
    /// to become the leader.
    pub fn serve(&mut self, parts: NodeParts<'_>) {
        let NodeParts { dispatcher, workspace, chat, backends, slots } = parts;
        let cluster = self.cluster.clone();
        let mover = LaneMover {
            cluster: cluster.clone(),
            transfer: dispatcher.transfer.clone(),
            observer: dispatcher.observer.clone(),
            settings: dispatcher.settings.clone(),
            workspace: workspace.clone(),
            chat: Arc::clone(&chat),
            in_flight: self.in_flight.clone(),
            slots,
            backends,
            waiting: std::mem::take(&mut self.waiting),
            returning: std::mem::take(&mut self.returning),
            imported: HashMap::new(),
        };
        let mover = supervisor::spawn("lane moves", mover.run(self.leadership.subscribe()));
        let reader = InboxReader {
            chat,
            intake: dispatcher.intake.clone(),
            file_neighbours: dispatcher.file_neighbours.clone(),
            in_flight: self.in_flight.clone(),
            cluster: cluster.clone(),
        };
        let reader = supervisor::spawn("messages from other nodes", reader.run(cluster.inbox()));
        self.intake = vec![reader, mover];
        let leadership = Arc::clone(&self.leadership);
        supervisor::spawn_finite("leadership", leadership::lead_when_possible(cluster, leadership));
    }

    /// Returns a receiver of whether this node is the leader.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<bool> {
        self.leadership.subscribe()
    }

    /// Returns the state file of the schedules, which moves to each new leader.
    #[must_use]
    pub fn leader_file(&self, config: &Path) -> LeaderFile {
        LeaderFile::new(self.cluster.clone(), config)
    }

    /// Stops receiving messages of other nodes, and waits a limited time until the received ones
    /// are processed.
    pub async fn stop_intake(&mut self) {
        self.intake.drain(..).for_each(|task| task.abort());
        if tokio::time::timeout(IN_FLIGHT_TIMEOUT, self.in_flight.wait_empty(None)).await.is_err() {
            tracing::warn!(
                "shutdown: some messages of other nodes were not processed; they will be sent again"
            );
        }
    }

    /// Copies the state files of the folder `config` to the database and gives up the node's
    /// leases, so that another node can take over at once.
    pub async fn leave(self, config: &Path) {
        StateFiles::of(&self.cluster, config).mirror_changes().await;
        self.fence.abort();
        self.cluster.leave().await;
        tracing::info!(
            node = self.cluster.name(),
            "this node has left the cluster; other nodes can take over its channels"
        );
    }
}
