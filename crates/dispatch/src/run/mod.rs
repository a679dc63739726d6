//! Processes one event: files, prompt, turn, memory, session and answer.
//!
//! [`prepare`] prepares the turn, and [`agent_turn`] runs it.
//! [`attachments`] fetches the files of the prompt into a [`temp_dir`], [`start`] creates the input
//! that starts the turn, [`audience`] shows the running turn without secrets ([`redact_stream`]),
//! and [`artifacts`] stores the agent's files. [`hooks`] run before and after the turn. [`resumed`]
//! resumes a turn whose agent still runs after a restart, and [`session`] saves the session of the
//! turn. [`recap`] gives an agent the previous messages of a channel that moved here, and [`switch`]
//! the turns of other agents. [`renewal`] lets turns continue that a usage limit ended, and
//! [`cut_off`] those that a budget stopped, with an event of [`continuation`]. [`turn_log`] records
//! the finished turn.
//! [`turn_renderer`] renders a recorded turn as people saw it.

mod agent_turn;
mod artifacts;
pub(crate) mod attachments;
pub(crate) mod audience;
mod continuation;
mod cut_off;
mod hooks;
mod prepare;
mod recap;
mod redact_stream;
mod renewal;
mod resumed;
mod session;
mod start;
mod switch;
mod temp_dir;
mod turn_log;
pub(crate) mod turn_renderer;
pub(super) mod unsolicited;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use super::Shared;
use super::budgets;
use super::lanes::paused::{end_wait_of, lane_pause};
use super::outlet::handle::ReplyHandle;
use super::persistence::wait_until_saved;
use super::recovery::restart_action::{TurnFollowUp, follow_up_lost_agent};
use aetheel_model::event::{Event, Lane};
use aetheel_runtime::figures;
use aetheel_store::workspace::{Hook, LostTurn, PendingSave};
use aetheel_turn::{Steering, StopReason};

/// Runs the turns of events and delivers their answers.
pub(crate) struct TurnRunner {
    shared: Arc<Shared>,
}

impl TurnRunner {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs the turn of an event and delivers its answer.
    pub(crate) async fn run(
        &self,
        event: Event,
        stop: watch::Receiver<Option<StopReason>>,
        steers: mpsc::UnboundedReceiver<Steering>,
        saving: Option<PendingSave>,
    ) -> TurnFollowUp {
        if let Some(probe) = self.shared.health.take_probe(&event) {
            self.shared.health.complete(probe).await;
            return TurnFollowUp::Nothing;
        }
        let continued = self.shared.links.continued().id(event.sequence, &event.lane);
        let (continues, id) = (continued.is_some(), continued.unwrap_or_else(turn_id));
        let unknown = tracing::field::Empty;
        // The span has the level `error`, so that log lines of every level have its fields.
        let span = tracing::error_span!("turn", turn = id, event = event.sequence, lane = %event.lane, backend = unknown, generation = unknown);
        figures::record_wait(event.kind, event.accepted_ms);
        async {
            if !wait_until_saved(saving).await {
                self.shared.durability.discard_unsaved(&event);
                return TurnFollowUp::Nothing;
            }
            let kept = self.shared.durability.progress_of(&event);
            let (answer, is_lost) = (kept.stored_answer(), LostTurn::of_key(event.key.as_deref()).is_some());
            let needs_agent = answer.is_none() && !is_lost && !continues && stop.borrow().is_none();
            if needs_agent && lane_pause(&self.shared, &event.lane).await.is_some() {
                return TurnFollowUp::Paused;
            }
            let subject = budgets::subject_of(&self.shared, &event).await;
            let _counted = match needs_agent {
                true => match self.shared.budgets.admit(&id, &subject).await {
                    Some(counted) => Some(counted),
                    None => return TurnFollowUp::Paused,
                },
                false if continues => Some(self.shared.budgets.resume(&id, &subject).await),
                false => None,
            };
            // A previous process may have ended before the notice of a wait was edited.
            end_wait_of(&self.shared, &event);
            let reply = ReplyHandle::new(kept.open_reply(&*self.shared.deps.outlet, &event));
            if let Some(answer) = answer {
                self.note_turn(&event, &answer, true);
                if !self.accept_continuation(&event, &answer).await {
                    return TurnFollowUp::Nothing;
                }
                self.shared.delivery.deliver(&event, &kept, &reply, answer).await;
                return TurnFollowUp::Nothing;
            }
            if is_lost {
                // An agent never runs for such an event.
                tracing::error!("the saved answer of a recovered turn cannot be read; `aetheel recover` creates it again");
                self.shared.durability.mark_finished(&event);
                return TurnFollowUp::Nothing;
            }
            self.shared.lost_replies.supersede(&event, &kept).await;
            if !continues {
                kept.record_start(&stop).await;
            }
            // Recorded before any work in the thread: after a restart, the dispatcher knows the
            // channel of the thread only from here.
            if let (Lane::Channel(channel), Some(parent)) = (&event.lane, event.parent) {
                self.shared.channels.parents.learn(*channel, parent);
            }
            let hooks = self.shared.deps.workspace.hooks().await;
            if !continues {
                self.fire(&hooks, Hook::AgentBegin, &event, &stop, "is about to be answered").await;
            }
            let answer = self.answer(&event, &id, (stop.clone(), steers), &reply, &kept).await.cleaned(&self.shared.deps.redactor);
            let mut answer = answer.with_line(&event, self.shared.now(), &id, &subject, stop.borrow().is_some());
            let stopped = answer.failure.is_some() && *stop.borrow() == Some(StopReason::Shutdown);
            if let Some(next) = stopped.then(|| kept.leave_to_next_start()).flatten() {
                kept.release_turn_place();
                self.note_turn(&event, &answer, false);
                self.shared.delivery.announce_restart(&reply, answer, &id, next).await;
                return TurnFollowUp::Nothing;
            }
            if answer.agent_lost
                && answer.failure.is_some()
                && stop.borrow().is_none()
                && let Some(left) = follow_up_lost_agent(&self.shared.durability, &event)
            {
                kept.release_turn_place();
                self.note_turn(&event, &answer, false);
                return left;
            }
            if answer.paused && stop.borrow().is_none() {
                let _ = kept.leave_to_next_start(); // the next start begins it, too
                kept.release_turn_place();
                return TurnFollowUp::Paused;
            }
            let reason = *stop.borrow();
            // An agent may reach a limit while it is stopped because of a budget. It has then ended by
            // itself, and its turn continues after the limit.
            let is_limited = answer.limit.is_some();
            if reason.is_none_or(|reason| reason == StopReason::Budget)
                && self.wait_for_renewal(&event, &id, &mut answer, &kept).await
                || !is_limited
                    && cut_off::is_cut_off(reason, &answer, &kept)
                    && cut_off::wait_for_budget(self, &event, &id, &subject, &mut answer, &kept)
                        .await
            {
                kept.release_turn_place();
                self.note_turn(&event, &answer, false);
                return TurnFollowUp::Paused;
            }
            let failed = answer.failure.is_some();
            if !failed {
                self.shared.limits.forget(&event.lane).await;
                if let Some(line) = &answer.turn {
                    self.shared.limits.unmark(&line.backend);
                }
            }
            let saved = kept.record_answer(&answer, &stop).await;
            kept.release_turn_place();
            if !saved {
                return TurnFollowUp::Nothing;
            }
            self.note_turn(&event, &answer, false);
            let continues = self.accept_continuation(&event, &answer).await;
            if !continues && self.shared.durability.journal_entry(&event).is_some() {
                return TurnFollowUp::Nothing;
            }
            self.shared.lanes.note_backend(&event.lane, answer.turn.as_deref());
            for received in self.shared.lanes.take_received(&event) {
                self.shared.durability.mark_finished(&received);
            }
            if hooks.of(Hook::AgentStop).is_none() {
                // People have the answer, so there is nothing to stop.
                self.shared.lanes.running.lock().remove(&event.lane);
            }
            self.shared.delivery.deliver(&event, &kept, &reply, answer).await;
            // People have their answer, but the lane is occupied until the hook has ended.
            self.stop_hook(&hooks, &event, &stop, failed).await;
            TurnFollowUp::Nothing
        }
        .instrument(span)
        .await
    }
}

/// Returns a random id of eight characters, which is enough to find a turn in months of logs.
fn turn_id() -> String {
    uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect()
}
