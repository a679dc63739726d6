//! Connects a running node of a cluster with the other nodes.
//!
//! These modules link the cluster's database to the adapter, the dispatcher and the schedules. They
//! decide nothing about turns.
//!
//! | module | subject |
//! |---|---|
//! | [`budget_table`] | adds up the use of budgets over all nodes |
//! | [`mail`] | receives the messages of other nodes |
//! | [`lane_moves`] | takes over lanes from other nodes, and gives lanes away |
//! | [`router`] | sends events of webhooks and schedules to the node that has the lane |
//! | [`node_digests`] | digests of files and components that should be the same on all nodes |
//! | [`returning_lanes`] | lanes that other nodes give back, because their agents continued here |
//! | [`leader`] | leadership: the login to Discord and the schedules |
//! | [`waiting_lanes`] | lanes that stay closed until agents on another machine have ended |

mod budget_table;
mod lane_moves;
mod leader;
mod mail;
mod node_digests;
mod returning_lanes;
mod router;
mod waiting_lanes;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::budget_table::ClusterBudgetTable;
use self::lane_moves::LaneMover;
pub(super) use self::leader::LeaderOnly;
use self::mail::{InFlightMessages, InboxReader, NodeMail, patiently};
use self::returning_lanes::ReturningLanes;
use self::router::ClusterRouter;
use self::waiting_lanes::WaitingLanes;
use crate::cli::exit;
use crate::startup::StartRefusal;
use crate::startup::clustering::StateFiles;
use aetheel_cluster::{Cluster, LaneRow};
use aetheel_dispatch::{ClusterChat, ClusterMail, Dispatcher, LaneTransfer, Recovery, Router};
use aetheel_model::event::Lane;
use aetheel_process::holder::HeldLauncher;
use aetheel_runtime::lease::Lease;
use aetheel_runtime::supervisor;
use aetheel_store::workspace::Workspace;
use aetheel_turn::Backends;

/// Time for messages that are being processed to finish during a shutdown.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_secs(5);

/// This node of a cluster and its tasks.
pub(super) struct ClusterNode {
    cluster: Cluster,
    /// Ends the program once another node has replaced this one.
    fence: JoinHandle<()>,
    /// Whether this node is the leader.
    leadership: Arc<watch::Sender<bool>>,
    in_flight: InFlightMessages,
    /// Receives the messages of other nodes.
    reader: Option<JoinHandle<()>>,
    /// Takes lanes over and gives lanes away.
    mover: Option<JoinHandle<()>>,
    /// Lanes that an earlier process of this node took over and that are still closed.
    waiting: WaitingLanes,
    /// Lanes that other nodes are to give back.
    returning: ReturningLanes,
}

/// The parts of the program that a node connects with the cluster.
pub(super) struct NodeParts<'a> {
    pub(super) dispatcher: &'a Dispatcher,
    pub(super) workspace: &'a Workspace,
    pub(super) chat: Arc<dyn ClusterChat>,
    pub(super) backends: Arc<dyn Backends>,
    /// Largest number of turns that run at the same time.
    pub(super) slots: usize,
}

impl ClusterNode {
    /// Starts two tasks: one passes the end of the node's long lease to the holder, the other one
    /// ends the program once another node has replaced this one.
    ///
    /// The program then exits without finishing anything, because the other node may already work
    /// in its channels. The holder ends the agents at the time that it was given.
    ///
    /// # Errors
    /// Returns [`StartRefusal`] if no holder can end agents at a given time.
    pub(super) fn start(
        cluster: Cluster,
        held: Option<&HeldLauncher>,
    ) -> Result<Self, StartRefusal> {
        let Some(held) = held.filter(|held| held.fences()).cloned() else {
            let why = "CLUSTER_URL needs a holder of this version, which ends the agents of a node that lost its place; start one (AGENT_HOLDER=require reports why it cannot start), or restart the one that runs";
            return Err(StartRefusal::because(exit::UNAVAILABLE, why.to_owned()));
        };
        let lease = cluster.lease();
        let mut until = cluster.turn_lease().watch();
        // The holder gets the time before the first agent starts.
        held.set_deadline(*until.borrow_and_update());
        supervisor::spawn_finite("lease of agents", async move {
            while until.changed().await.is_ok() {
                held.set_deadline(*until.borrow_and_update());
            }
        });
        let fence = supervisor::spawn("fence", exit_when_lease_ends(lease));
        let seat = Arc::new(watch::Sender::new(false));
        let (hands, reader, mover) = (InFlightMessages::default(), None, None);
        let (waiting, returning) = (WaitingLanes::default(), ReturningLanes::default());
        let (leadership, in_flight) = (seat, hands);
        Ok(Self { cluster, fence, leadership, in_flight, reader, mover, waiting, returning })
    }

    /// Continues the events of the previous process, except in lanes in which agents of another
    /// machine may still run. Then reports to the cluster which lanes are to be given back, because
    /// the agents of their turns continue here, and that all other agents of this machine have
    /// ended. Returns the same as [`Recovery::recover`].
    pub(super) async fn recover(&mut self, recovery: &Recovery, transfer: &LaneTransfer) -> bool {
        let lanes = patiently!(self.cluster.waiting_lanes()).unwrap_or_default();
        let taken = patiently!(self.cluster.lanes_waiting_for_this_machine()).unwrap_or_default();
        let continuing = transfer.continuing_lanes();
        let continues = |row: &LaneRow| continuing.iter().any(|lane| row.has(lane));
        let (wanted, lost): (Vec<LaneRow>, Vec<LaneRow>) = taken.into_iter().partition(continues);
        let closed = |lane: &Lane| lanes.iter().any(|row| row.has(lane));
        let returning = |lane: &Lane| wanted.iter().any(|row| row.has(lane));
        let (later, saved) = recovery.recover_except(closed, returning).await;
        self.waiting.add(&lanes, later);
        let roots: Vec<String> = wanted.iter().map(|row| row.root.clone()).collect();
        patiently!(self.cluster.report_agents_ended(&roots));
        self.returning = ReturningLanes::new(wanted, lost);
        saved
    }

    /// Returns the lease during which this node may write to Discord.
    pub(super) fn lease(&self) -> Lease {
        self.cluster.lease()
    }

    /// Returns the router that sends events of webhooks and schedules to the node with their lane.
    pub(super) fn router(&self, workspace: &Workspace) -> Arc<dyn Router> {
        Arc::new(ClusterRouter {
            cluster: self.cluster.clone(),
            workspace: workspace.clone(),
            budgets: ClusterBudgetTable::new(self.cluster.clone()),
        })
    }

    /// Returns the access of the adapter to the other nodes.
    pub(super) fn mail(&self) -> Arc<dyn ClusterMail> {
        Arc::new(NodeMail(self.cluster.clone()))
    }

    /// Starts the tasks that exchange messages and lanes with other nodes, and the one that tries
    /// to become the leader.
    pub(super) fn serve(&mut self, parts: NodeParts<'_>) {
        let NodeParts { dispatcher, workspace, chat, backends, slots } = parts;
        let (cluster, hands) = (self.cluster.clone(), self.in_flight.clone());
        let movers = LaneMover {
            cluster: cluster.clone(),
            transfer: dispatcher.transfer.clone(),
            observer: dispatcher.observer.clone(),
            settings: dispatcher.settings.clone(),
            workspace: workspace.clone(),
            chat: Arc::clone(&chat),
            in_flight: hands.clone(),
            slots,
            backends,
            waiting: std::mem::take(&mut self.waiting),
            returning: std::mem::take(&mut self.returning),
            notified: HashSet::new(),
            imported: HashMap::new(),
        };
        self.mover = Some(supervisor::spawn("lane moves", movers.run(self.leadership.subscribe())));
        let inbox = cluster.inbox();
        let reader = InboxReader {
            chat,
            intake: dispatcher.intake.clone(),
            file_neighbours: dispatcher.file_neighbours.clone(),
            in_flight: hands,
            cluster: cluster.clone(),
        };
        self.reader = Some(supervisor::spawn("messages from other nodes", reader.run(inbox)));
        supervisor::spawn_finite(
            "leadership",
            leader::lead_when_possible(cluster, Arc::clone(&self.leadership)),
        );
    }

    /// Returns a receiver of whether this node is the leader.
    pub(super) fn leadership(&self) -> watch::Receiver<bool> {
        self.leadership.subscribe()
    }

    /// Returns the state file of the schedules, which moves to each new leader.
    pub(super) fn leader_file(&self, config: &Path) -> leader::LeaderFile {
        leader::LeaderFile::new(self.cluster.clone(), config)
    }

    /// Stops receiving messages of other nodes, and waits a limited time until the received ones
    /// are processed.
    pub(super) async fn stop_intake(&mut self) {
        for task in [self.reader.take(), self.mover.take()].into_iter().flatten() {
            task.abort();
        }
        if tokio::time::timeout(IN_FLIGHT_TIMEOUT, self.in_flight.wait_empty(None)).await.is_err() {
            tracing::warn!(
                "shutdown: some messages of other nodes were not processed; they will be sent again"
            );
        }
    }

    /// Copies the state files of the folder `config` to the database and gives up the node's
    /// leases, so that another node can take over at once.
    pub(super) async fn leave(self, config: &Path) {
        StateFiles::of(&self.cluster, config).mirror_changes().await;
        self.fence.abort();
        self.cluster.leave().await;
        tracing::info!(
            node = self.cluster.name(),
            "this node has left the cluster; other nodes can take over its channels"
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "dropping tasks would write to Discord")]
async fn exit_when_lease_ends(lease: Lease) {
    lease.wait_until_ended().await;
    tracing::error!(
        "this node has lost its place in the cluster; the program exits at once, to be started again"
    );
    std::process::exit(exit::TEMPORARY.into())
}
