//! Lanes that another node took over from this machine while the agents of their turns continued
//! here. The other node gives them back, or continues with them if this machine returned too late.

use std::time::{Duration, Instant};

use crate::retry::until_answered;
use crate::{Cluster, LaneRow};

/// How long this machine waits for its lanes. Nodes of earlier versions never give them back.
const RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// The lanes that other nodes are to give back to this machine.
#[derive(Default)]
pub(super) struct ReturningLanes {
    lanes: Vec<LaneRow>,
    /// Lanes that wait for this machine, but none of whose turns continues here.
    lost: Vec<LaneRow>,
    since: Option<Instant>,
}

pub(super) struct ReturnDecisions {
    /// Lanes that this node has again, or may still get.
    pub(super) returned: Vec<LaneRow>,
    /// Lanes that another node has opened, or did not give back in time.
    pub(super) lost: Vec<LaneRow>,
}

impl ReturningLanes {
    pub(super) fn new(lanes: Vec<LaneRow>, lost: Vec<LaneRow>) -> Self {
        Self { lanes, lost, since: Some(Instant::now()) }
    }

    /// Returns the current decisions, or `None` if no lane is to be given back. The last call
    /// withdraws the request for lanes that still wait.
    pub(super) async fn settle(&mut self, cluster: &Cluster) -> Option<ReturnDecisions> {
        if self.lanes.is_empty() && self.lost.is_empty() {
            return None;
        }
        let is_late = self.since.is_none_or(|since| since.elapsed() > RETURN_TIMEOUT);
        if is_late {
            until_answered(|| cluster.report_agents_ended(&[])).await;
        }
        // In this order, because a lane that waits may be given back between the calls.
        let waiting = until_answered(|| cluster.lanes_waiting_for_this_machine()).await?;
        let mine = until_answered(|| cluster.my_lanes()).await?;
        let is_in = |rows: &[LaneRow], row: &LaneRow| rows.iter().any(|one| one.root == row.root);
        let (returned, mut lost): (Vec<_>, Vec<_>) = std::mem::take(&mut self.lanes)
            .into_iter()
            .partition(|row| is_in(&mine, row) || !is_late && is_in(&waiting, row));
        lost.append(&mut self.lost);
        if !is_late {
            self.lanes.clone_from(&returned);
        }
        Some(ReturnDecisions { returned, lost })
    }
}
