//! Delivering replies that were lost and can be read now: each once, in the order of its lane, and
//! without asking any agent.
//!
//! The answer goes into the journal together with its event, before anything is posted; its key
//! makes sure that there is only one. `state/lost.md` says that it was delivered before the event
//! is checked off, so that one of both always knows. Pinned by `tests/dispatch/lost.rs`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::event::{DIRECTORY, plain_answer};
use super::lost::{ALL, ONE};
use super::questions::Person;
use super::recovery::{Again, AgainRefusal};
use super::reply::Answer;
use super::{Dispatcher, Inner};
use crate::event::{Event, EventKind, Lane, NewEvent, Origin};
use crate::figures::{self, Outcome};
use crate::turn::reread::Reread;
use crate::workspace::{LostState, LostTurn, SessionId};

/// Time for a press: Discord waits three seconds for its answer.
const PRESS: Duration = Duration::from_millis(1_800);
/// A reply older than this is told with its date.
const OLD_MS: i64 = 24 * 3_600_000;

impl Dispatcher {
    /// Hands a lost reply over for delivery, read by the backend as it is now. Returns when it is
    /// safe.
    ///
    /// # Errors
    /// [`AgainRefusal`]; nothing is delivered, or it was before.
    pub async fn deliver_lost(&self, turn: &str) -> Result<(), AgainRefusal> {
        let inner = &self.inner;
        let _alone = inner.salvage.alone.lock().await;
        let lost = inner
            .parts
            .workspace
            .lost_turns()
            .get(turn)
            .await
            .filter(|lost| inner.is_ours(lost))
            .ok_or(AgainRefusal::Gone)?;
        match lost.state {
            LostState::Delivered => return Err(AgainRefusal::Delivered),
            LostState::GivenUp => return Err(AgainRefusal::Gone),
            LostState::Lost | LostState::Readable => {}
        }
        let event = event_of(&lost);
        if self.is_on_its_way(&lost).await {
            return Err(AgainRefusal::Delivered);
        }
        let backend = inner.parts.backends.get(&lost.backend).ok_or(AgainRefusal::NotYet)?;
        let read = match inner.read_again(&lost, &*backend).await {
            Ok(read) => read,
            Err(why) => {
                tracing::info!(
                    turn,
                    backend = lost.backend,
                    why,
                    "a lost reply still cannot be read"
                );
                return Err(AgainRefusal::NotYet);
            }
        };
        inner.rebind(&lost, &event, &read).await;
        let answer = inner.recovered_answer(&lost, backend.descriptor().label(), read).await;
        self.hand_over(turn, event, answer).await
    }

    /// Whether a lost reply was handed over before. When it was delivered and `lost.md` does not
    /// say so, it does from now on.
    pub(super) async fn is_on_its_way(&self, lost: &LostTurn) -> bool {
        let key = lost.key();
        let Some(journal) = self.inner.parts.journal.as_ref().filter(|journal| journal.knows(&key))
        else {
            return false;
        };
        if !journal.open_events().iter().any(|entry| entry.event.key.as_deref() == Some(&key)) {
            self.mark(&lost.turn, LostState::Delivered, None).await;
        }
        true
    }

    /// Puts an event with its answer into the queue and the journal.
    async fn hand_over(
        &self,
        turn: &str,
        event: NewEvent,
        answer: Answer,
    ) -> Result<(), AgainRefusal> {
        let inner = &self.inner;
        let json = serde_json::to_string(&answer).expect("an answer is plain data");
        let kind = event.kind;
        let saving = {
            let mut queue = inner.queue.lock();
            if queue.is_closed() {
                return Err(AgainRefusal::ShuttingDown);
            }
            let event = queue.admit(event, jiff::Timestamp::now().as_millisecond());
            tracing::info!(turn, event = event.sequence, lane = %event.lane, "a lost reply is delivered");
            inner.salvage.answers.lock().insert(event.sequence, Arc::new(answer));
            let saving = inner
                .parts
                .journal
                .as_ref()
                .map(|journal| journal.accepted_answered(&inner.to_keep(&event), json));
            if let Some(saving) = &saving {
                inner.savings.lock().insert(event.sequence, saving.clone());
            }
            saving.map(|saving| (event, saving))
        };
        if let Some((event, saving)) = saving.clone() {
            self.watch_saving(event, saving);
        }
        figures::event(kind, Outcome::Accepted);
        self.pump();
        if inner.parts.journal.is_none() {
            // Nothing else says that it is on its way.
            self.mark(turn, LostState::Delivered, None).await;
        }
        let safe = match saving {
            Some((_, saving)) => saving.done().await,
            None => true,
        };
        if safe { Ok(()) } else { Err(AgainRefusal::NotSaved) }
    }

    /// Hands over those of these turns that can be read; returns how many.
    pub async fn deliver_all(&self, turns: &[String]) -> usize {
        let mut count = 0;
        for turn in turns {
            match self.deliver_lost(turn).await {
                Ok(()) => count += 1,
                Err(AgainRefusal::ShuttingDown) => break,
                Err(why) => tracing::info!(turn, ?why, "a lost reply is not delivered"),
            }
        }
        count
    }

    /// Delivers what was lost in a lane, as far as it can be read now; returns what to tell whoever
    /// asked.
    pub async fn recover_lane(&self, lane: &Lane) -> String {
        let lost = self.inner.parts.workspace.lost_turns().all().await;
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

    /// Takes the press of a button about lost replies; none: it is another button.
    pub(super) async fn press_of_lost(
        &self,
        id: &str,
        person: &Person,
        admitted: bool,
    ) -> Option<Result<Again, AgainRefusal>> {
        if let Some(turn) = id.strip_prefix(ONE) {
            return Some(if admitted {
                self.press_one(turn).await
            } else {
                Err(AgainRefusal::NotAdmitted)
            });
        }
        let (_, backend) = id.strip_prefix(ALL)?.split_once('-')?;
        // Nobody in particular asked for all of them.
        let operator = self.inner.questions.may_act(None, &Lane::Hook(String::new()), person);
        Some(if operator { self.press_all(backend).await } else { Err(AgainRefusal::NotOperator) })
    }

    async fn press_one(&self, turn: &str) -> Result<Again, AgainRefusal> {
        let (dispatcher, turn) = (self.clone(), turn.to_owned());
        // Goes on when Discord waits no longer.
        let reading = self.inner.tasks.spawn(async move { dispatcher.deliver_lost(&turn).await });
        match tokio::time::timeout(PRESS, reading).await {
            Ok(Ok(delivered)) => delivered.map(|()| Again::Delivered),
            Ok(Err(_)) => Err(AgainRefusal::Gone),
            Err(_) => Err(AgainRefusal::Reading),
        }
    }

    async fn press_all(&self, backend: &str) -> Result<Again, AgainRefusal> {
        let lost = self.inner.parts.workspace.lost_turns().all().await;
        let open = |turn: &LostTurn| {
            turn.backend == backend
                && turn.state == LostState::Readable
                && !self.inner.knows(&event_of(turn))
        };
        let turns: Vec<String> = lost.into_iter().filter(open).map(|turn| turn.turn).collect();
        if turns.is_empty() {
            return Err(AgainRefusal::Gone);
        }
        let dispatcher = self.clone();
        self.inner.tasks.spawn(async move { dispatcher.deliver_all(&turns).await });
        Ok(Again::Delivered)
    }
}

impl Inner {
    /// What people get of a recovered turn.
    async fn recovered_answer(&self, lost: &LostTurn, label: &str, read: Reread) -> Answer {
        let mut notices = Vec::new();
        if read.cut {
            notices.push("The agent was stopped before it had finished; this is what it had said until then.".to_owned());
        }
        let old = jiff::Timestamp::now().as_millisecond() - lost.at_ms > OLD_MS;
        let date = jiff::Timestamp::from_millisecond(lost.at_ms).ok().filter(|_| old);
        let date = date.map(|at| format!(" of {}", at.strftime("%Y-%m-%d"))).unwrap_or_default();
        notices.push(format!(
            "The reply{date} that could not be read at first. (recovered, {})",
            lost.turn
        ));
        let (text, notices) = self.remember(&lost.lane, None, read.text, notices).await;
        let model = read.session.and_then(|session| session.model);
        Answer {
            text,
            notices,
            model,
            usage: read.usage,
            took: read.took,
            ..plain_answer(label.to_owned())
        }
        .cleaned(&self.parts.redactor)
    }

    /// Has the conversation go on where the recovered turn left it, unless it went elsewhere since.
    async fn rebind(&self, lost: &LostTurn, event: &NewEvent, read: &Reread) {
        let Some(ready) = &read.session else { return };
        let Ok(session) = SessionId::new(&ready.native_id) else { return };
        let (bindings, backend) = (self.parts.workspace.bindings(), lost.backend.as_str());
        let binding = bindings.get(&lost.lane, backend).await;
        let now = binding.session.as_ref().map(SessionId::as_str);
        let key = (lost.lane.clone(), lost.backend.clone());
        let ours =
            now.is_some() && self.salvage.rebound.lock().get(&key).map(String::as_str) == now;
        if now == Some(session.as_str()) || !(ours || now == lost.session.as_deref()) {
            return;
        }
        let epoch = self.salvage.epochs.lock().get(&lost.turn).copied().unwrap_or(binding.epoch);
        let elsewhere = read.cwd.as_deref().and_then(|cwd| self.elsewhere(Path::new(cwd)));
        let placed = if binding.settings.get(DIRECTORY) == elsewhere.as_ref() {
            Ok(())
        } else {
            bindings.set_setting(&lost.lane, backend, DIRECTORY, elsewhere.clone()).await
        };
        let bound = match placed {
            Ok(()) => {
                bindings.set_session_if(&lost.lane, backend, Some(session.clone()), epoch).await
            }
            Err(error) => Err(error),
        };
        match bound {
            Ok(true) => {
                let event: Event = event.clone().accepted(0, lost.at_ms);
                self.noted(
                    &event,
                    backend,
                    session.clone(),
                    lost.session.as_deref(),
                    (ready.title.as_deref(), elsewhere),
                )
                .await;
                self.salvage.rebound.lock().insert(key, session.as_str().to_owned());
            }
            // It was begun anew since.
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot save the session of a recovered turn; the next prompt does not continue it")
            }
        }
    }

    /// Notes what became of a recovered reply, before its event is checked off.
    pub(super) async fn recovered(&self, event: &Event, state: LostState) {
        let Some(turn) = LostTurn::of_key(event.key.as_deref()) else { return };
        let lost = self.parts.workspace.lost_turns();
        if let Err(error) = lost.mark(turn, state, None).await {
            tracing::error!(turn, %error, "cannot note in state/lost.md what became of a recovered reply");
        }
        let Some(lost) = lost.get(turn).await else { return };
        figures::lost_reply(&lost.backend, state.word());
        let told = lost.channel.zip(lost.notice);
        if let Some((channel, message)) = told.filter(|_| state == LostState::Delivered) {
            self.parts.outlet.settle_offer(channel, message).await;
        }
    }
}

/// The event that delivers a lost reply: no agent is asked for it.
fn event_of(lost: &LostTurn) -> NewEvent {
    let kind = match &lost.lane {
        Lane::Console | Lane::Channel(_) => EventKind::Message,
        Lane::Heartbeat(_) => EventKind::Heartbeat,
        Lane::Cron(_) => EventKind::Cron,
        Lane::Hook(_) => EventKind::Hook,
        Lane::Webhook(_) => EventKind::Webhook,
    };
    let origin = match (lost.channel, lost.message) {
        (Some(channel), Some(message)) => Origin::Message { channel, message },
        (channel, _) => Origin::Internal { channel },
    };
    let words = format!("(the recovered reply {})", lost.turn);
    NewEvent {
        asker: lost.asker,
        key: Some(lost.key()),
        ..NewEvent::new(kind, lost.lane.clone(), origin, words)
    }
}
