//! Connects a running node of a cluster with the other nodes.
//!
//! These modules link the cluster's database to Discord, the dispatcher and the schedules. They
//! decide nothing about turns.
//!
//! | module | subject |
//! |---|---|
//! | [`components`] | installs the components that an operator sent to all nodes |
//! | [`mail`] | sends events from Discord to the node that has the channel, and receives them |
//! | [`moving`] | takes over lanes from other nodes, and gives lanes away |
//! | [`router`] | sends events of webhooks and schedules to the node that has the lane |
//! | [`sameness`] | digests of files and components that should be the same on all nodes |
//! | [`seat`] | leadership: the login to Discord and the schedules |
//! | [`unposted`] | events from Discord that are not in the database yet |
//! | [`waiting`] | lanes that stay closed until agents on another machine have ended |

mod components;
mod mail;
mod moving;
mod router;
mod sameness;
mod seat;
mod unposted;
mod waiting;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::mail::{Gate, Hands, Poster, Reader, patiently};
use self::moving::Movers;
use self::router::ToNodes;
pub(super) use self::seat::WithSeat;
use self::unposted::Unposted;
use self::waiting::WaitingLanes;
use crate::cli::exit;
use crate::cluster::Cluster;
use crate::discord::{Discord, Heard, Receipt, Sharing};
use crate::dispatch::{Dispatcher, Router};
use crate::event::Lane;
use crate::lease::Lease;
use crate::process::holder::HeldLauncher;
use crate::startup::clustering::StateFiles;
use crate::startup::{Installer, Refused};
use crate::turn::Backends;
use crate::vigil;
use crate::workspace::Workspace;

/// Time for messages that are being processed to finish during a shutdown.
const HANDS_TIMEOUT: Duration = Duration::from_secs(5);

/// This node of a cluster and its tasks.
pub(super) struct Place {
    cluster: Cluster,
    /// Ends the program once another node has replaced this one.
    fence: JoinHandle<()>,
    /// Whether this node is the leader.
    seat: Arc<watch::Sender<bool>>,
    hands: Hands,
    /// Receives the messages of other nodes.
    reader: Option<JoinHandle<()>>,
    /// Takes lanes over and gives lanes away.
    mover: Option<JoinHandle<()>>,
    /// Lanes that an earlier process of this node took over and that are still closed.
    waiting: WaitingLanes,
}

/// The node's ends of the channels that connect it with Discord.
pub(super) struct Ends {
    heard: mpsc::UnboundedReceiver<Heard>,
    letters: mpsc::UnboundedSender<(Heard, Receipt)>,
}

impl Place {
    /// Starts two tasks: one passes the end of the node's long lease to the holder, the other one
    /// ends the program once another node has replaced this one.
    ///
    /// The program then exits without finishing anything, because the other node may already work
    /// in its channels. The holder ends the agents at the time that it was given.
    ///
    /// # Errors
    /// Returns [`Refused`] if no holder can end agents at a given time.
    pub(super) fn keep(cluster: Cluster, held: Option<&HeldLauncher>) -> Result<Self, Refused> {
        let Some(held) = held.filter(|held| held.fences()).cloned() else {
            let why = "CLUSTER_URL needs a holder of this version, which ends the agents of a node that lost its place; start one (AGENT_HOLDER=require reports why it cannot start), or restart the one that runs";
            return Err(Refused::because(exit::UNAVAILABLE, why.to_owned()));
        };
        let lease = cluster.lease();
        let mut until = cluster.turns().watch();
        // The holder gets the time before the first agent starts.
        held.until(*until.borrow_and_update());
        vigil::errand("lease of agents", async move {
            while until.changed().await.is_ok() {
                held.until(*until.borrow_and_update());
            }
        });
        let fence = vigil::task("fence", leave_when_over(lease));
        let seat = Arc::new(watch::Sender::new(false));
        let (hands, reader, mover) = (Hands::default(), None, None);
        let waiting = WaitingLanes::default();
        Ok(Self { cluster, fence, seat, hands, reader, mover, waiting })
    }

    /// Continues the events of the previous process, except in lanes in which agents of another
    /// machine may still run. Then reports to the cluster that all other agents of this machine
    /// have ended. Returns the same as [`Dispatcher::recover`].
    pub(super) async fn recover(&mut self, dispatcher: &Dispatcher) -> bool {
        let lanes = patiently!(self.cluster.waiting_lanes()).unwrap_or_default();
        let closed = |lane: &Lane| lanes.iter().any(|row| row.has(lane));
        let (later, saved) = dispatcher.recover_but(closed).await;
        self.waiting.add(&lanes, later);
        patiently!(self.cluster.agents_ended());
        saved
    }

    /// Returns the lease during which this node may write to Discord.
    pub(super) fn lease(&self) -> Lease {
        self.cluster.lease()
    }

    /// Returns the router that sends events of webhooks and schedules to the node with their lane.
    pub(super) fn router(&self, workspace: &Workspace) -> Arc<dyn Router> {
        Arc::new(ToNodes { cluster: self.cluster.clone(), workspace: workspace.clone() })
    }

    /// Creates the channels through which Discord's events go to other nodes and come from them.
    /// Discord gets [`Sharing`]; the other ends are for [`Self::begin`].
    pub(super) fn sharing(&self) -> (Sharing, Ends) {
        let (out, heard) = mpsc::unbounded_channel();
        let (letters, from) = mpsc::unbounded_channel();
        let logins = Arc::new(seat::SharedLogins(self.cluster.clone()));
        let sharing = Sharing { out, from, seat: self.seat.subscribe(), logins };
        (sharing, Ends { heard, letters })
    }

    /// Starts the tasks that exchange messages and lanes with other nodes, and the one that tries
    /// to become the leader.
    pub(super) fn begin(
        &mut self,
        ends: Ends,
        dispatcher: &Dispatcher,
        (workspace, discord): (&Workspace, &Discord),
        (backends, slots): (Arc<dyn Backends>, usize),
    ) {
        let (cluster, hands, gate) = (self.cluster.clone(), self.hands.clone(), Gate::default());
        let unposted = Unposted::default();
        let poster =
            Poster::new(cluster.clone(), discord.clone(), workspace.clone(), unposted.clone());
        let (to_post, posting) = mpsc::unbounded_channel();
        vigil::errand("discord events", unposted.clone().follow(ends.heard, to_post));
        vigil::errand("waiting notices", unposted.report(discord.clone(), cluster.away()));
        vigil::errand("messages to other nodes", poster.run(posting));
        let movers = Movers {
            cluster: cluster.clone(),
            dispatcher: dispatcher.clone(),
            workspace: workspace.clone(),
            discord: discord.clone(),
            hands: hands.clone(),
            gate: Arc::clone(&gate),
            slots,
            backends,
            waiting: std::mem::take(&mut self.waiting),
        };
        self.mover = Some(vigil::task("lane moves", movers.run(self.seat.subscribe())));
        let inbox = cluster.inbox();
        let reader = Reader {
            gate,
            discord: ends.letters,
            dispatcher: dispatcher.clone(),
            hands,
            cluster: cluster.clone(),
        };
        self.reader = Some(vigil::task("messages from other nodes", reader.run(inbox)));
        vigil::errand("leadership", seat::keep(cluster, Arc::clone(&self.seat)));
    }

    /// Starts the task that installs the components that an operator sent to all nodes. `most` is
    /// the largest size of a component in bytes.
    pub(super) fn take_components(&self, installer: Installer, most: u64) {
        let taking = components::take(self.cluster.clone(), installer, most);
        vigil::errand("components for all nodes", taking);
    }

    /// Returns a receiver of whether this node is the leader.
    pub(super) fn seat(&self) -> watch::Receiver<bool> {
        self.seat.subscribe()
    }

    /// Returns the state file of the schedules, which moves to each new leader.
    pub(super) fn seat_file(&self, config: &Path) -> seat::SeatFile {
        seat::SeatFile::new(self.cluster.clone(), config)
    }

    /// Stops receiving messages of other nodes, and waits a limited time until the received ones
    /// are processed.
    pub(super) async fn stop_intake(&mut self) {
        for task in [self.reader.take(), self.mover.take()].into_iter().flatten() {
            task.abort();
        }
        if tokio::time::timeout(HANDS_TIMEOUT, self.hands.empty(None)).await.is_err() {
            tracing::warn!(
                "shutdown: some messages of other nodes were not processed; they will be sent again"
            );
        }
    }

    /// Copies the state files of the folder `config` to the database and gives up the node's
    /// leases, so that another node can take over at once.
    pub(super) async fn leave(self, config: &Path) {
        StateFiles::of(&self.cluster, config).hand_on().await;
        self.fence.abort();
        self.cluster.leave().await;
        tracing::info!(
            node = self.cluster.name(),
            "this node has left the cluster; other nodes can take over its channels"
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "dropping tasks would write to Discord")]
async fn leave_when_over(lease: Lease) {
    lease.over().await;
    tracing::error!(
        "this node has lost its place in the cluster; the program exits at once, to be started again"
    );
    std::process::exit(exit::TEMPORARY.into())
}
