//! Moving the open events of lanes between nodes of a cluster.
//!
//! An imported event starts here like an event after a restart. Tested by
//! `tests/dispatch/absorb.rs`.

use std::sync::Arc;

use super::restart::{ImportedEvents, Recovery};
use crate::Shared;
use crate::outlet::messages::PromptRefusal;
use aetheel_model::event::{Lane, Sequence};
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_store::workspace::Journal;

/// Moves the open events of lanes between nodes. Cheap to clone.
#[derive(Clone)]
pub struct LaneTransfer {
    shared: Arc<Shared>,
}

impl LaneTransfer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Imports the open events of matching lanes from another node's journal, except those that
    /// this journal has already. Returns once they are on disk.
    ///
    /// `first` is the beginning of a block of event numbers. Events that this node accepts from now
    /// on get numbers of that block, so that they sort after the imported ones. No other node may
    /// use the block, and it must be later than every block that existed when the other node
    /// stopped. With 0, this node keeps its current block.
    ///
    /// # Errors
    /// [`PromptRefusal::NotSaved`] if the events cannot be saved. None of them is imported then.
    pub async fn import_lanes(
        &self,
        journal: &str,
        first: Sequence,
        lanes: impl Fn(&Lane) -> bool,
    ) -> Result<ImportedEvents, PromptRefusal> {
        let own = self.shared.deps.journal.as_ref().ok_or(PromptRefusal::NotSaved)?;
        {
            let mut queue = self.shared.lanes.queue.lock();
            queue.numbers.count_from(first, 0);
            own.use_block(first);
        }
        let events = own.import(journal, lanes).await.ok_or(PromptRefusal::NotSaved)?;
        Ok(ImportedEvents { recovery: Recovery::new(self.shared.clone()), events })
    }

    /// Returns the lanes that have, or may have, a started turn without an answer, according to the
    /// journal.
    /// After a takeover, the agent of such a turn may still run on the other machine.
    #[must_use]
    pub fn begun_lanes(&self) -> Vec<Lane> {
        let Some(journal) = &self.shared.deps.journal else { return Vec::new() };
        let open = journal.open_events();
        let begun = open.into_iter().filter(|entry| {
            entry.started > 0 && entry.answer.is_none() && entry.offered_ms.is_none()
        });
        begun.map(|entry| entry.event.request.lane).chain(journal.newer_lanes()).collect()
    }

    /// Returns the lanes that have open events in another node's journal.
    #[must_use]
    pub fn open_lanes_of(&self, journal: &str) -> Vec<Lane> {
        Journal::open_lanes(journal)
    }

    /// Returns the channel and the id of every message in the journal. This node accepted
    /// these messages, or a node whose journal was imported did.
    #[must_use]
    pub fn accepted_messages(&self) -> Vec<(ChannelId, MessageId)> {
        self.shared.deps.journal.as_ref().map(Journal::messages).unwrap_or_default()
    }

    /// Returns whether matching lanes have no work in progress: no waiting, held or running event,
    /// no answer or question about an event that is being delivered. Events that people were asked
    /// about, or that were left to the next start, are not in progress.
    /// [`LaneTransfer::export_lanes`] exports them.
    #[must_use]
    pub fn is_idle_in(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        !self.shared.lanes.queue.lock().any_in(&lanes)
            && !self.shared.lanes.running.lock().keys().any(&lanes)
            && !self.shared.delivery.in_flight.any_in(&lanes)
    }

    /// Exports the journal lines of matching lanes, for the node that gets the lanes. Must be
    /// called while [`LaneTransfer::is_idle_in`] returns true for them.
    #[must_use]
    pub fn export_lanes(&self, lanes: impl Fn(&Lane) -> bool) -> String {
        self.shared.deps.journal.as_ref().map(|journal| journal.lines_of(lanes)).unwrap_or_default()
    }

    /// Returns the lanes whose agents outlived the previous process in the middle of a turn. Must be
    /// called after [`Recovery::restore_agents`] and before [`Recovery::recover_except`].
    #[must_use]
    pub fn continuing_lanes(&self) -> Vec<Lane> {
        self.shared.links.continued().lanes()
    }

    /// Ends the turns that continue from a previous process, except those of `kept` lanes and those
    /// whose events are in the journal.
    pub fn end_continued_turns(&self, kept: impl Fn(&Lane) -> bool) {
        let Some(journal) = &self.shared.deps.journal else { return };
        let wanted = |event, lane: &Lane| kept(lane) || journal.entry(event).is_some();
        self.shared.links.continued().retain(wanted);
    }

    /// Forgets lanes that another node has imported from the lines of
    /// [`LaneTransfer::export_lanes`]. Their events are not processed here any more, and their
    /// agents end. Returns whether that is on disk. If it is not, writing it is retried.
    pub async fn forget_lanes(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        self.shared.links.forget_all(&lanes);
        match &self.shared.deps.journal {
            Some(journal) => journal.forget_lanes(lanes).await,
            None => true,
        }
    }
}
