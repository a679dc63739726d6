//! Moves lanes between nodes.
//!
//! The first node that notices a dead one takes over everything that it had
//! ([`Cluster::claim_dead`]). The lanes stay closed until their state is imported, as one line of the
//! journal ([`LaneTransfer::import_lanes`]), and acknowledged. Their waiting events begin first, and
//! then their messages are delivered ([`Cluster::release_lanes`]). A lane in which a turn had begun
//! stays closed longer ([`WaitingLanes`]), or goes back to the machine on which the turn continues.
//!
//! A node that is being drained gives its lanes away one by one: it waits until nothing runs in a
//! lane, holds back its messages ([`Cluster::hold_messages`]), waits until none is being processed,
//! and transfers the lane ([`Cluster::transfer_lane`]).
//!
//! After an import, at each start and after each login, nodes read the messages of their channels
//! from the chat platform that no node received.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::digests::{self, NodeDigests};
use super::inbox::InFlightMessages;
use super::returning_lanes::{ReturnDecisions, ReturningLanes};
use super::waiting_lanes::WaitingLanes;
use tokio::sync::watch;

use crate::retry::until_answered;
use crate::start::{CHAT_FILE, StateFiles};
use crate::{Cluster, ClusterError, Handover, LaneRow, Load};
use aetheel_dispatch::{ClusterChat, ImportedEvents, LaneTransfer, Observer, Settings};
use aetheel_model::event::{Lane, LaneFilter};
use aetheel_model::plain::with_causes;
use aetheel_runtime::figures;
use aetheel_runtime::supervisor;
use aetheel_store::workspace::Workspace;
use aetheel_turn::Backends;

/// Time between two checks of the cluster's state.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two computations of the digests that other nodes compare.
const COMPARE_INTERVAL: Duration = Duration::from_secs(10);
/// How long moving a lane waits for messages that are being processed. After that, the lane is
/// tried again later.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_secs(5);

/// Takes lanes over from other nodes and gives lanes away.
pub(super) struct LaneMover {
    pub(super) cluster: Cluster,
    pub(super) transfer: LaneTransfer,
    pub(super) observer: Observer,
    pub(super) settings: Settings,
    pub(super) workspace: Workspace,
    pub(super) chat: Arc<dyn ClusterChat>,
    pub(super) in_flight: InFlightMessages,
    /// Largest number of turns that run at the same time.
    pub(super) slots: usize,
    pub(super) backends: Arc<dyn Backends>,
    /// Lanes that were taken over and are still closed.
    pub(super) waiting: WaitingLanes,
    /// Lanes that other nodes are to give back.
    pub(super) returning: ReturningLanes,
    /// The events of handovers that are in the journal but not acknowledged, by the number of the
    /// handover. A repeated import would not return them.
    pub(super) imported: HashMap<i64, ImportedEvents>,
}

impl LaneMover {
    /// Runs until the program ends.
    pub(super) async fn run(mut self, leadership: watch::Receiver<bool>) {
        let (mut drained, mut digests) = (false, NodeDigests::default());
        let mut compared: Option<Instant> = None;
        loop {
            let peers = self.cluster.peers().borrow().clone();
            self.chat.share_requests(peers.live_nodes);
            figures::set_cluster(
                self.cluster.lease().remaining(),
                peers.live_nodes,
                *leadership.borrow(),
            );
            if compared.is_none_or(|at| at.elapsed() > COMPARE_INTERVAL) {
                (digests, compared) = (self.digests().await, Some(Instant::now()));
            }
            self.report(peers.drain_requested, &digests);
            if peers.drain_requested {
                let left = self.move_all_away().await;
                if left == 0 && !drained {
                    tracing::info!(
                        node = self.cluster.name(),
                        "drained: this node has no channels any more; it can be stopped"
                    );
                }
                drained = left == 0;
            } else {
                drained = false;
                self.claim_dead().await;
            }
            let handovers = until_answered(|| self.cluster.handovers()).await;
            for handover in handovers.unwrap_or_default() {
                self.import_handover(&handover).await;
            }
            self.settle_returning().await;
            self.open_waited().await;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Ends the agents of lanes that other nodes do not give back.
    async fn settle_returning(&mut self) {
        let Some(ReturnDecisions { returned, lost }) = self.returning.settle(&self.cluster).await
        else {
            return;
        };
        for row in &lost {
            let lane = row.root.as_str();
            tracing::warn!(
                lane,
                "another node continues with a channel; its agents here are ended"
            );
            self.forget(row).await;
        }
        self.transfer.end_continued_turns(|lane| returned.iter().any(|row| row.has(lane)));
    }

    /// Gives the closed lanes back that other machines want, because the agents of their turns
    /// continue there.
    async fn give_back_lanes(&mut self) {
        for row in until_answered(|| self.cluster.wanted_lanes()).await.unwrap_or_default() {
            // Its handover may not be imported yet.
            if !self.waiting.contains(&row.root) {
                continue;
            }
            let (journal, files) = self.export(&row).await;
            let given = until_answered(|| self.cluster.give_back(&row.root, &journal, &files))
                .await
                .flatten();
            if let Some(to) = given {
                let lane = row.root.as_str();
                tracing::info!(lane, to, "a channel returns to its machine, whose agent continues");
                self.waiting.remove(&row.root);
                self.forget(&row).await;
            }
        }
    }

    /// Opens the lanes in which no agent of another machine can run any more.
    async fn open_waited(&mut self) {
        let waiting = self.waiting.roots();
        if waiting.is_empty() {
            return;
        }
        self.give_back_lanes().await;
        self.report_closed_lanes().await;
        let opened =
            until_answered(|| self.cluster.open_waiting_lanes(&waiting)).await.unwrap_or_default();
        if !opened.is_empty() {
            tracing::info!(
                lanes = opened.len(),
                "the agents of another machine have ended; this node continues with their channels"
            );
        }
        self.waiting.begin(&opened);
        self.cluster.release_lanes(&opened);
    }

    async fn report_closed_lanes(&mut self) {
        for (message, until) in
            until_answered(|| self.cluster.closed_messages()).await.unwrap_or_default()
        {
            if self.waiting.needs_notice(message.number) {
                let chat = Arc::clone(&self.chat);
                supervisor::spawn_finite("notice of a closed channel", async move {
                    chat.report_closed(&message.body, until).await;
                });
            }
        }
    }

    async fn digests(&self) -> NodeDigests {
        let folder = self.workspace.folder().to_owned();
        let files = tokio::task::spawn_blocking(move || digests::files(&folder)).await;
        NodeDigests {
            files: files.unwrap_or_default(),
            components: digests::components(&*self.backends),
        }
    }

    fn report(&self, draining: bool, digests: &NodeDigests) {
        let stats = self.observer.stats();
        self.cluster.report(Load {
            free_slots: self.slots as f64 - (stats.running + stats.waiting) as f64,
            running: u32::try_from(stats.running).unwrap_or(u32::MAX),
            waiting: u32::try_from(stats.waiting).unwrap_or(u32::MAX),
            draining,
            files: digests.files.clone(),
            components: digests.components.clone(),
        });
    }

    async fn claim_dead(&self) {
        match self.cluster.claim_dead().await {
            // The task that renews the lease reports these.
            Ok(_) | Err(ClusterError::Away(_) | ClusterError::Fenced) => {}
            Err(error) => {
                tracing::error!(%error, "cannot take over the lanes of nodes that are gone")
            }
        }
    }

    async fn import_handover(&mut self, handover: &Handover) {
        for (thread, root) in &handover.threads {
            if let Ok(Lane::Channel(root)) = root.parse() {
                self.settings.learn_parent(*thread, root);
            }
        }
        let failed = |error: String| {
            let from = &handover.from;
            tracing::error!(error, from, "cannot import the lanes of another node; trying again");
        };
        if !self.imported.contains_key(&handover.id) {
            let Some(first) = until_answered(|| self.cluster.next_number_block()).await else {
                return;
            };
            let lanes = self.transfer.open_lanes_of(&handover.journal);
            let others = until_answered(|| self.cluster.lanes_of_other_nodes(&lanes)).await;
            let Some(others) = others else { return };
            let theirs = |lane: &Lane| !others.contains(lane);
            match self.transfer.import_lanes(&handover.journal, first, theirs).await {
                Ok(events) => self.imported.insert(handover.id, events),
                Err(error) => return failed(error.to_string()),
            };
        }
        // The files and the journal of a dead node may contain channels that it gave away before.
        let handed_lanes = handover.lanes();
        let handed = |channel| {
            let lane = Lane::Channel(channel);
            handed_lanes.iter().any(|row| row.has(&lane))
        };
        let mut channels = Vec::new();
        for (_, body) in handover.files.iter().filter(|(name, _)| name == CHAT_FILE) {
            match self.chat.import_channels(body, &handed).await {
                Ok(more) => channels.extend(more),
                Err(error) => return failed(error.to_string()),
            }
        }
        if let Err(error) = self.workspace.state.import(&handover.files).await {
            return failed(error.to_string());
        }
        // The state files lack the messages that the other node accepted just before it died.
        let mut accepted = self.transfer.accepted_messages();
        accepted.retain(|(channel, _)| handed(*channel));
        channels.extend(self.chat.mark_handled(&accepted));
        // The handover is deleted next. If this node ends after that, its successor needs its files.
        let files = StateFiles::of(&self.cluster, self.workspace.folder());
        if !files.mirror_changes().await {
            return;
        }
        let begun_lanes = self.transfer.begun_lanes();
        let has_begun = |row: &&LaneRow| begun_lanes.iter().any(|lane| row.has(lane));
        let with_turns: Vec<String> =
            handed_lanes.iter().filter(has_begun).map(|row| row.root.clone()).collect();
        let Some(opened) =
            until_answered(|| self.cluster.ack_handover(handover, &with_turns)).await
        else {
            return;
        };
        let Some(events) = self.imported.remove(&handover.id) else { return };
        let stays_closed =
            |row: &&LaneRow| with_turns.contains(&row.root) && !opened.contains(&row.root);
        let waiting: Vec<LaneRow> = handed_lanes.iter().filter(stays_closed).cloned().collect();
        tracing::warn!(
            from = handover.from,
            lanes = handover.roots.len(),
            waiting = waiting.len(),
            "this node continues the work of another node; agent sessions start anew; `waiting` is the number of channels that stay closed until their agents have ended on the other machine"
        );
        figures::cluster_takeover(events.len());
        let is_waiting = |lane: &Lane| waiting.iter().any(|row| row.has(lane));
        let (later, now) = events.split(is_waiting);
        self.waiting.add(&waiting, later);
        self.waiting.begin(&opened);
        now.begin();
        // Reads the messages that people wrote while no node had these channels, before any new
        // message there is processed.
        self.chat.catch_up(channels);
        self.cluster.release_lanes(&opened);
    }

    /// Moves the lanes that are idle to other nodes. Returns how many lanes are left.
    async fn move_all_away(&self) -> usize {
        let lanes = until_answered(|| self.cluster.my_lanes()).await.unwrap_or_default();
        let mut left = lanes.len();
        for lane in &lanes {
            if self.is_idle(lane) && self.move_away(lane).await {
                left -= 1;
            }
        }
        left
    }

    fn is_idle(&self, row: &LaneRow) -> bool {
        self.transfer.is_idle_in(|lane| row.has(lane))
            && self.chat.is_idle_in(&|id| row.has(&Lane::Channel(id)))
    }

    /// Moves a lane to another node. Returns `false` if it stays here for now.
    async fn move_away(&self, row: &LaneRow) -> bool {
        let root = row.root.as_str();
        until_answered(|| self.cluster.hold_messages(root, true)).await;
        let emptied =
            tokio::time::timeout(IN_FLIGHT_TIMEOUT, self.in_flight.wait_empty(Some(root))).await;
        if emptied.is_err() || !self.is_idle(row) {
            until_answered(|| self.cluster.hold_messages(root, false)).await;
            return false;
        }
        let (journal, files) = self.export(row).await;
        let new_node =
            until_answered(|| self.cluster.transfer_lane(root, &journal, &files)).await.flatten();
        if let Some(to) = new_node {
            tracing::info!(lane = root, to, "a channel was moved to another node");
            self.forget(row).await;
            return true;
        }
        until_answered(|| self.cluster.hold_messages(root, false)).await;
        false
    }

    /// Returns the journal lines and the state files of a lane, for another node.
    async fn export(&self, row: &LaneRow) -> (String, Vec<(String, String)>) {
        let theirs = filter_of(row);
        let mut files = self.workspace.state.export_lanes(Arc::clone(&theirs)).await;
        let notes = self.chat.export_channels(&|id| row.has(&Lane::Channel(id))).await;
        files.push((CHAT_FILE.to_owned(), notes));
        (self.transfer.export_lanes(&*theirs), files)
    }

    /// Removes the local data of a lane that another node has.
    async fn forget(&self, row: &LaneRow) {
        let (theirs, lane) = (filter_of(row), row.root.as_str());
        if let Err(error) = self.chat.forget_channels(&|id| row.has(&Lane::Channel(id))).await {
            tracing::warn!(error = %with_causes(&error), lane, "cannot remove the notes of a moved channel from the state files");
        }
        self.transfer.forget_lanes(&*theirs).await;
        if let Err(error) = self.workspace.state.forget_lanes(theirs).await {
            tracing::warn!(error = %with_causes(&error), lane, "cannot remove the lines of a moved channel from the state files");
        }
    }
}

fn filter_of(row: &LaneRow) -> LaneFilter {
    let row = row.clone();
    Arc::new(move |lane: &Lane| row.has(lane))
}
