//! Reads lost replies again with newer backends, and delivers those that can be read: each once, in
//! the order of its lane, without running an agent.
//!
//! The answer is saved in the journal together with its event before anything is posted, and the
//! event's key keeps it unique. `state/lost.md` records the delivery before the event is marked as
//! finished, so that after a crash at least one of the two files has the delivery. Tested by
//! `tests/dispatch/lost.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::offer::OfferRefusal;
use super::unread::ALL;
use crate::Shared;
use crate::outlet::{Notice, Offer, TurnAnswer};
use crate::persistence::wait_until_saved;
use aetheel_model::agent::SessionId;
use aetheel_model::event::{Event, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::plain::with_causes;
use aetheel_recording::Backend;
use aetheel_recording::reread::RereadAnswer;
use aetheel_runtime::figures::{self, EventOutcome};
use aetheel_store::workspace::{LostState, LostTurn};

/// The age in milliseconds from which a recovered reply is delivered with its date.
const UNDATED_LIMIT_MS: i64 = 24 * 3_600_000;

/// Delivers lost replies that can be read now. Cheap to clone.
#[derive(Clone)]
pub struct Redelivery {
    pub(super) shared: Arc<Shared>,
}

impl Redelivery {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Reads the lost replies of these backends, or of all backends if `backends` is `None`, unless
    /// the current generation has tried them before. Posts one notice per backend to the operator's
    /// channel about the replies that can be read now. Replies are read one after the other, each
    /// within a time limit.
    pub async fn reread_lost(&self, backends: Option<&[String]>) {
        let shared = &self.shared;
        let mut by_backend: BTreeMap<String, Vec<LostTurn>> = BTreeMap::new();
        for turn in shared.lost_replies.notes().all().await {
            let wanted = backends.is_none_or(|names| names.contains(&turn.backend));
            if wanted
                && turn.state.is_open()
                && shared.lost_replies.is_ours(&turn)
                && !shared.lost_replies.is_being_delivered(&turn).await
            {
                by_backend.entry(turn.backend.clone()).or_default().push(turn);
            }
        }
        for (name, turns) in by_backend {
            if let Some(backend) = shared.deps.backends.get(&name) {
                self.reread_with(&name, &*backend, turns).await;
            }
        }
    }

    async fn reread_with(&self, name: &str, backend: &dyn Backend, turns: Vec<LostTurn>) {
        let (shared, generation) = (&self.shared, backend.generation());
        let digest = generation.digest.as_str();
        let (tried, new): (Vec<_>, Vec<_>) = turns
            .into_iter()
            .filter(|turn| turn.digest != digest)
            .partition(|turn| turn.tried.as_deref() == Some(digest));
        let before = tried.iter().filter(|turn| turn.state == LostState::Readable).count();
        let mut readable = Vec::new();
        for turn in new {
            if shared.lanes.queue.lock().is_closed() {
                return;
            }
            // Waits for a delivery in progress, which may be that of this reply.
            let _alone = shared.lost_replies.delivery_lock.lock().await;
            if shared.lost_replies.is_being_delivered(&turn).await {
                continue;
            }
            match shared.lost_replies.read_again(&turn, backend).await {
                Ok(_) => readable.push(turn.turn),
                Err(error) => {
                    tracing::info!(turn = turn.turn, backend = name, %generation, why = %error, "a lost reply still cannot be read");
                    shared.lost_replies.mark_tried(&turn.turn, LostState::Lost, digest).await;
                }
            }
        }
        if readable.is_empty() {
            return;
        }
        let count = readable.len() + before;
        tracing::info!(backend = name, %generation, count, "lost replies can be read now; `aetheel recover` delivers them too");
        let answers = if count == 1 {
            "1 answer that was lost".to_owned()
        } else {
            format!("{count} answers that were lost")
        };
        let text = format!(
            "The new version of the `{name}` backend ({generation}) can now read {answers}. (recoverable)"
        );
        // The prefix distinguishes this button from others. Discord accepts 64 characters here.
        let id: String = format!("{ALL}{}-{name}", digest.get(..12).unwrap_or(digest))
            .chars()
            .take(64)
            .collect();
        let offer = Some(Offer { id, label: "Deliver them".to_owned() });
        if let Err(error) = shared.deps.outlet.notify(Notice::for_operator(text, offer)).await {
            tracing::warn!(%error, "cannot send the notice about lost replies that can be read; `aetheel recover` delivers them");
        }
        // The replies are marked after the notice was sent: after a crash in between, the notice is
        // posted a second time rather than never, and Discord shows a repeated notice once. Its
        // button works without the marks.
        for turn in readable {
            shared.lost_replies.mark_tried(&turn, LostState::Readable, digest).await;
        }
    }

    /// Reads a lost reply with the current generation of its backend, and enqueues it for delivery.
    /// Returns once it is on disk.
    ///
    /// # Errors
    /// [`OfferRefusal`] if nothing is delivered, or the reply was delivered before.
    pub async fn deliver_lost(&self, turn: &str) -> Result<(), OfferRefusal> {
        let shared = &self.shared;
        let _alone = shared.lost_replies.delivery_lock.lock().await;
        let lost = shared.lost_replies.notes().get(turn).await;
        let lost =
            lost.filter(|lost| shared.lost_replies.is_ours(lost)).ok_or(OfferRefusal::Gone)?;
        match lost.state {
            LostState::Delivered => return Err(OfferRefusal::Delivered),
            LostState::GivenUp => return Err(OfferRefusal::Gone),
            LostState::Lost | LostState::Readable => {}
        }
        let event = delivery_event(&lost);
        if shared.lost_replies.is_being_delivered(&lost).await {
            return Err(OfferRefusal::Delivered);
        }
        let backend = shared.deps.backends.get(&lost.backend).ok_or(OfferRefusal::NotYet)?;
        let read = match shared.lost_replies.read_again(&lost, &*backend).await {
            Ok(read) => read,
            Err(error) => {
                tracing::info!(
                    turn,
                    backend = lost.backend,
                    why = %error,
                    "a lost reply still cannot be read"
                );
                return Err(OfferRefusal::NotYet);
            }
        };
        self.continue_recovered_session(&lost, &event, &read).await;
        let answer = self.recovered_answer(&lost, backend.descriptor().label(), read).await;
        self.enqueue_recovered(turn, event, answer).await
    }

    /// Adds an event with its answer to the queue and the journal.
    async fn enqueue_recovered(
        &self,
        turn: &str,
        event: NewEvent,
        answer: TurnAnswer,
    ) -> Result<(), OfferRefusal> {
        let shared = &self.shared;
        let kind = event.kind;
        let saving = {
            let mut queue = shared.lanes.queue.lock();
            if queue.is_closed() {
                return Err(OfferRefusal::ShuttingDown);
            }
            let event = queue.accept_beyond_limits(event, shared.deps.clock.now_ms());
            tracing::info!(turn, event = event.sequence, lane = %event.lane, "a lost reply is delivered");
            let saving = shared.durability.save_answered(&event, answer);
            saving.map(|saving| (event, saving))
        };
        if let Some((event, saving)) = saving.clone() {
            shared.watch_saving(event, saving);
        }
        figures::count_event(kind, EventOutcome::Accepted);
        self.shared.start_waiting();
        if shared.deps.journal.is_none() {
            // Without a journal, only this mark prevents a second delivery.
            shared.lost_replies.mark_delivered(turn).await;
        }
        if wait_until_saved(saving.map(|(_, saving)| saving)).await {
            Ok(())
        } else {
            Err(OfferRefusal::NotSaved)
        }
    }

    /// Enqueues the replies of these turns that can be read. Returns their number.
    pub async fn deliver_all(&self, turns: &[String]) -> usize {
        self.deliver_each(turns).await.0
    }

    /// Enqueues the replies of these turns that can be read. Returns their number, and why the last
    /// of the others is not enqueued.
    pub(super) async fn deliver_each(&self, turns: &[String]) -> (usize, Option<OfferRefusal>) {
        let (mut count, mut refusal) = (0, None);
        for turn in turns {
            match self.deliver_lost(turn).await {
                Ok(()) => count += 1,
                Err(why) => {
                    tracing::info!(turn, ?why, "a lost reply is not delivered");
                    refusal = Some(why);
                }
            }
            if refusal == Some(OfferRefusal::ShuttingDown) {
                break;
            }
        }
        (count, refusal)
    }

    /// Delivers the lost replies of a lane that can be read now. Returns a message for the person
    /// who asked.
    pub async fn recover_lane(&self, lane: &Lane) -> String {
        let lost = self.shared.lost_replies.notes().all().await;
        let lost: Vec<String> = lost
            .into_iter()
            .filter(|turn| turn.lane == *lane && turn.state.is_open())
            .map(|turn| turn.turn)
            .collect();
        if lost.is_empty() {
            return "no reply is lost".to_owned();
        }
        let (delivered, all) = (self.deliver_all(&lost).await, lost.len());
        match all - delivered {
            0 => format!("recovered: {delivered}"),
            left => format!(
                "recovered: {delivered}; still unreadable: {left} (a newer backend may read them)"
            ),
        }
    }

    /// Returns the answer of a recovered turn.
    async fn recovered_answer(
        &self,
        lost: &LostTurn,
        label: &str,
        read: RereadAnswer,
    ) -> TurnAnswer {
        let mut notices = Vec::new();
        if read.cut {
            notices.push(
                "The agent was stopped before it had finished; this is its output until then."
                    .to_owned(),
            );
        }
        let old = self.shared.deps.clock.now_ms() - lost.at_ms > UNDATED_LIMIT_MS;
        let date = jiff::Timestamp::from_millisecond(lost.at_ms).ok().filter(|_| old);
        let date = date.map(|at| format!(" of {}", at.strftime("%Y-%m-%d"))).unwrap_or_default();
        notices.push(format!(
            "This reply{date} could not be read at first. (recovered, {})",
            lost.turn
        ));
        let channels = &self.shared.channels;
        let (text, notices) = channels.remember(&lost.lane, None, read.text, notices).await;
        let model = read.session.and_then(|session| session.model);
        TurnAnswer {
            text,
            notices,
            model,
            usage: read.usage,
            took: read.took,
            ..TurnAnswer::from_backend(label)
        }
        .cleaned(&self.shared.deps.redactor)
    }

    /// Continues the lane's conversation with the session of the recovered turn, unless the lane
    /// has continued with another session since.
    async fn continue_recovered_session(
        &self,
        lost: &LostTurn,
        event: &NewEvent,
        read: &RereadAnswer,
    ) {
        let Some(ready) = &read.session else { return };
        let Ok(session) = SessionId::new(&ready.native_id) else { return };
        let state = &self.shared.deps.workspace.state;
        let (bindings, backend) = (&state.bindings, lost.backend.as_str());
        let (known, channels) = (&self.shared.lost_replies, &self.shared.channels);
        let binding = bindings.get(&lost.lane, backend).await;
        let now = binding.session.as_ref().map(SessionId::as_str);
        let key = (lost.lane.clone(), lost.backend.clone());
        let ours =
            now.is_some() && known.recovered_sessions.lock().get(&key).map(String::as_str) == now;
        if now == Some(session.as_str()) || !(ours || now == lost.session.as_deref()) {
            return;
        }
        let epoch = known.epochs.lock().get(&lost.turn).copied().unwrap_or(binding.epoch);
        let elsewhere =
            read.cwd.as_deref().and_then(|cwd| channels.non_default_directory(Path::new(cwd)));
        let placed =
            channels.note_directory(&lost.lane, backend, &binding, elsewhere.as_ref()).await;
        let bound = match placed {
            Ok(()) => {
                bindings.set_session_if(&lost.lane, backend, Some(session.clone()), epoch).await
            }
            Err(error) => Err(error),
        };
        match bound {
            Ok(true) => {
                let event: Event = event.clone().accepted(0, lost.at_ms);
                channels
                    .note_session(
                        &event,
                        backend,
                        session.clone(),
                        lost.session.as_deref(),
                        ready.title.as_deref(),
                        elsewhere,
                    )
                    .await;
                known.recovered_sessions.lock().insert(key, session.as_str().to_owned());
            }
            // The conversation has been reset since.
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(error = %with_causes(&error), "cannot save the session of a recovered turn; the next prompt does not continue it")
            }
        }
    }
}

/// Returns the event that delivers a lost reply. It runs no agent.
pub(super) fn delivery_event(lost: &LostTurn) -> NewEvent {
    let kind = match &lost.lane {
        Lane::Console | Lane::Channel(_) => EventKind::Message,
        Lane::Heartbeat(_) => EventKind::Heartbeat,
        Lane::Cron(_) => EventKind::Cron,
        Lane::Hook(_) => EventKind::Hook,
        Lane::Webhook(_) => EventKind::Webhook,
    };
    let origin = match (lost.channel, lost.message) {
        (Some(channel), Some(message)) => EventOrigin::Message { channel, message },
        (channel, _) => EventOrigin::Internal { channel },
    };
    let words = format!("(the recovered reply {})", lost.turn);
    NewEvent {
        asker: lost.asker,
        key: Some(lost.key()),
        ..NewEvent::new(kind, lost.lane.clone(), origin, words)
    }
}
