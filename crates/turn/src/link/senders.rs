//! The receivers of what a link returns: drivers of turns, authors of messages to running turns,
//! callers of queries, and clients of the MCP server.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use super::served::ServedClients;
use super::{LinkReport, QueryReply};
use aetheel_model::agent::{SteerOutcome, TurnKey};

/// The pending replies of a link. If a receiver is gone, its reply is dropped.
#[derive(Default)]
pub(super) struct ReplySenders {
    turns: BTreeMap<TurnKey, mpsc::UnboundedSender<LinkReport>>,
    pub(super) steers: BTreeMap<u32, oneshot::Sender<SteerOutcome>>,
    pub(super) queries: BTreeMap<u32, oneshot::Sender<QueryReply>>,
    pub(super) clients: ServedClients,
}

impl ReplySenders {
    pub(super) fn add_turn(&mut self, turn: TurnKey, reports: mpsc::UnboundedSender<LinkReport>) {
        self.turns.insert(turn, reports);
    }

    pub(super) fn remove_turn(&mut self, turn: TurnKey) {
        self.turns.remove(&turn);
    }

    /// Sends a report to the driver of a turn.
    pub(super) fn report(&self, turn: TurnKey, report: LinkReport) {
        if let Some(reports) = self.turns.get(&turn) {
            let _ = reports.send(report);
        }
    }

    /// Sends a report to the drivers of all turns.
    pub(super) fn report_all(&self, report: impl Fn() -> LinkReport) {
        for reports in self.turns.values() {
            let _ = reports.send(report());
        }
    }
}
