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
    steers: BTreeMap<u32, oneshot::Sender<SteerOutcome>>,
    queries: BTreeMap<u32, oneshot::Sender<QueryReply>>,
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

    pub(super) fn add_steer(&mut self, message: u32, reply_tx: oneshot::Sender<SteerOutcome>) {
        self.steers.insert(message, reply_tx);
    }

    pub(super) fn steered(&mut self, message: u32, outcome: SteerOutcome) {
        if let Some(reply_tx) = self.steers.remove(&message) {
            let _ = reply_tx.send(outcome);
        }
    }

    pub(super) fn add_query(&mut self, query: u32, reply_tx: oneshot::Sender<QueryReply>) {
        self.queries.insert(query, reply_tx);
    }

    pub(super) fn answered(&mut self, query: u32, reply: QueryReply) {
        if let Some(reply_tx) = self.queries.remove(&query) {
            let _ = reply_tx.send(reply);
        }
    }
}
