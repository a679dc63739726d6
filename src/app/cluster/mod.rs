//! This node's place in its cluster, while it runs.
//!
//! Owns what connects the cluster's database with Discord, the dispatcher and the schedules; decides
//! nothing about turns.
//!
//! | room | owns |
//! |---|---|
//! | [`components`] | components that were handed to all nodes |
//! | [`mail`] | letters: what a node hears, for whoever has the channel |
//! | [`moving`] | channels that come from other nodes, and that go |
//! | [`router`] | events of webhooks and schedules, for whoever has their lane |
//! | [`sameness`] | what machines should have in common |
//! | [`seat`] | what only one node does |
//! | [`unposted`] | messages that wait while the database is away |
//! | [`waiting`] | channels that wait for the end of agents of another machine |

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

/// For letters in hand to be seen to at the end.
const HANDS_TIMEOUT: Duration = Duration::from_secs(5);

/// The place of a node.
pub(super) struct Place {
    cluster: Cluster,
    /// Ends the program when the place is lost.
    fence: JoinHandle<()>,
    /// Whether this node has the seat.
    seat: Arc<watch::Sender<bool>>,
    hands: Hands,
    /// Takes letters, and gives channels to others.
    reader: Option<JoinHandle<()>>,
    mover: Option<JoinHandle<()>>,
    /// Channels that an earlier process of this node took over and that are still closed.
    waiting: WaitingLanes,
}

/// The node's ends of what it shares with Discord.
pub(super) struct Ends {
    heard: mpsc::UnboundedReceiver<Heard>,
    letters: mpsc::UnboundedSender<(Heard, Receipt)>,
}

impl Place {
    /// Keeps the place: tells the holder how long agents may run, and ends the program once the
    /// place is lost. Another node may have its channels then, so nothing is said to anybody and
    /// nothing is finished: the holder ends the agents, by its own clock if need be.
    ///
    /// # Errors
    /// [`Refused`]: there is no holder that can do that.
    pub(super) fn keep(cluster: Cluster, held: Option<&HeldLauncher>) -> Result<Self, Refused> {
        let Some(held) = held.filter(|held| held.fences()).cloned() else {
            let why = "CLUSTER_URL needs a holder of this version, which ends the agents of a node that lost its place; start one (AGENT_HOLDER=require says why there is none), or restart the one that runs";
            return Err(Refused::because(exit::UNAVAILABLE, why.to_owned()));
        };
        let lease = cluster.lease();
        let mut until = cluster.turns().watch();
        // Before any agent begins.
        held.until(*until.borrow_and_update());
        vigil::errand("agents' time", async move {
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

    /// Goes on with the events that an earlier process left, except in channels in which agents of
    /// another machine may still run. Reports that all other agents of this machine have ended.
    /// Returns the same as [`Dispatcher::recover`].
    pub(super) async fn recover(&mut self, dispatcher: &Dispatcher) -> bool {
        let lanes = patiently!(self.cluster.waiting_lanes()).unwrap_or_default();
        let closed = |lane: &Lane| lanes.iter().any(|row| row.has(lane));
        let (later, saved) = dispatcher.recover_but(closed).await;
        self.waiting.add(&lanes, later);
        patiently!(self.cluster.agents_ended());
        saved
    }

    /// Until when this node may speak.
    pub(super) fn lease(&self) -> Lease {
        self.cluster.lease()
    }

    /// The way of webhooks and schedules to other nodes.
    pub(super) fn router(&self, workspace: &Workspace) -> Arc<dyn Router> {
        Arc::new(ToNodes { cluster: self.cluster.clone(), workspace: workspace.clone() })
    }

    /// What Discord needs to share events with other nodes, and the ends of it for [`Self::begin`].
    pub(super) fn sharing(&self) -> (Sharing, Ends) {
        let (out, heard) = mpsc::unbounded_channel();
        let (letters, from) = mpsc::unbounded_channel();
        let logins = Arc::new(seat::SharedLogins(self.cluster.clone()));
        let sharing = Sharing { out, from, seat: self.seat.subscribe(), logins };
        (sharing, Ends { heard, letters })
    }

    /// Begins to take letters and channels, and to wait for the seat.
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
        vigil::errand("what discord says", unposted.clone().follow(ends.heard, to_post));
        vigil::errand("words about waiting", unposted.report(discord.clone(), cluster.away()));
        vigil::errand("letters to others", poster.run(posting));
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
        self.mover =
            Some(vigil::task("channels of the cluster", movers.run(self.seat.subscribe())));
        let inbox = cluster.inbox();
        let reader = Reader {
            gate,
            discord: ends.letters,
            dispatcher: dispatcher.clone(),
            hands,
            cluster: cluster.clone(),
        };
        self.reader = Some(vigil::task("letters", reader.run(inbox)));
        vigil::errand("seat", seat::keep(cluster, Arc::clone(&self.seat)));
    }

    /// Begins to take components that an operator handed to all nodes, of at most so many bytes.
    pub(super) fn take_components(&self, installer: Installer, most: u64) {
        let taking = components::take(self.cluster.clone(), installer, most);
        vigil::errand("components for all nodes", taking);
    }

    /// Whether this node has the seat, now and later.
    pub(super) fn seat(&self) -> watch::Receiver<bool> {
        self.seat.subscribe()
    }

    /// The file of the schedules, which goes with the seat.
    pub(super) fn seat_file(&self, config: &Path) -> seat::SeatFile {
        seat::SeatFile::new(self.cluster.clone(), config)
    }

    /// Takes no letters any more; returns when those in hand are seen to.
    pub(super) async fn stop_intake(&mut self) {
        for task in [self.reader.take(), self.mover.take()].into_iter().flatten() {
            task.abort();
        }
        if tokio::time::timeout(HANDS_TIMEOUT, self.hands.empty(None)).await.is_err() {
            tracing::warn!(
                "shutdown: what came from other nodes is not all seen to; it comes again"
            );
        }
    }

    /// Gives the place to whoever follows, with the state files of this folder.
    pub(super) async fn leave(self, config: &Path) {
        StateFiles::of(&self.cluster, config).hand_on().await;
        self.fence.abort();
        self.cluster.leave().await;
        tracing::info!(node = self.cluster.name(), "this node has left its place to others");
    }
}

#[expect(clippy::disallowed_methods, reason = "whatever is dropped would speak to people")]
async fn leave_when_over(lease: Lease) {
    lease.over().await;
    tracing::error!(
        "this node has lost its place in the cluster; it leaves at once, to be started again"
    );
    std::process::exit(exit::TEMPORARY.into())
}
