//! Turns that a usage limit ended.
//!
//! If the operator lets conversations change between the accounts of an agent, the next account that
//! has not reached a limit serves the lane at once. Otherwise, the lane waits for the end of the limit.
//!
//! If people saw nothing of the turn, its event waits in the paused lane and runs again. Otherwise
//! the partial answer is delivered, and a new event continues the conversation once the limit has
//! ended ([`Continuation`]). The limits of lanes are in [`limits`](crate::limits).

use std::sync::Arc;

use async_trait::async_trait;

use crate::channel::DIRECTORY;
use crate::channel::options::Setting;
use crate::lanes::wait_choices::wait_offers;
use crate::limits::messages;
use crate::outlet::limited::LimitedTurn;
use crate::outlet::{Notice, TurnAnswer};
use crate::part::{
    Gate, Gateway, ListedWait, NextTurn, Outcome, PartOfTurn, TurnContext, TurnPart, Wait,
    WaitDecider,
};
use crate::persistence::NextStart;
use crate::recovery::restart::notice_target;
use crate::run::artifacts::QUOTA_IS_USED_UP;
use crate::run::continuation::{Continuation, may_continue};
use aetheel_model::event::{Event, EventKind, Lane};
use aetheel_model::plain::with_causes;
use aetheel_model::queue::LaneHold;
use aetheel_turn::StopReason;

/// Lanes wait for the end of a usage limit, or change to another account.
pub struct UsageLimits;

struct LimitsOfTurn(Arc<TurnContext>);

#[async_trait]
impl TurnPart for UsageLimits {
    fn name(&self) -> &'static str {
        "limits"
    }

    async fn wait(&self, Gateway { shared }: Gateway<'_>, next: NextTurn<'_>) -> Option<Wait> {
        // Few lanes have a note, and the settings need files.
        shared.deps.workspace.state.limits.get(next.lane)?;
        let (name, settings) = shared.channels.backend_of(next.lane).await;
        let backend = shared.serving(&name, next.lane)?;
        let (descriptor, now) = (backend.descriptor(), shared.now());
        let model = shared.channels.in_force(next.lane, &settings, descriptor).await.model;
        let note = shared.limits.in_force(next.lane, &name, model.as_deref(), now)?;
        let label = descriptor.label();
        let offers = match next.event {
            Some(event) => wait_offers(shared, event, &note, descriptor).await,
            None => Vec::new(),
        };
        let continues = next.event.is_some_and(Continuation::is_after_limit);
        Some(Wait {
            part: self.name(),
            hold: LaneHold::Everybody,
            key: note.turn.clone(),
            summary: messages::reason(label, &note, now),
            log_line: "event waits for the end of a usage limit",
            notice: messages::waits(label, &note, continues, now),
            status: Some(messages::status(label, &note, now)),
            offers,
            listed: Some(ListedWait {
                reason: messages::reached(label, &note),
                decider: WaitDecider::Everybody,
            }),
            until: Some(note.until),
        })
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(LimitsOfTurn(Arc::clone(turn))))
    }
}

#[async_trait]
impl PartOfTurn for LimitsOfTurn {
    async fn admit(&mut self) -> Gate {
        self.0.gate(&UsageLimits).await
    }

    async fn conclude(&mut self, answer: &mut TurnAnswer) -> Option<Outcome> {
        if self.0.stopped().is_none_or(|reason| reason == StopReason::Budget)
            && self.waits_for_renewal(answer).await
        {
            return Some(Outcome::Wait(Some(std::mem::take(answer))));
        }
        if answer.failure.is_none() {
            let limits = &self.0.shared.limits;
            limits.forget(&self.0.event.lane).await;
            if let Some(line) = &answer.turn {
                limits.unmark(&line.backend);
            }
        }
        None
    }
}

impl LimitsOfTurn {
    /// Lets the lane of a turn wait for the end of the usage limit that ended the turn. Returns
    /// whether the event itself waits, so that there is no answer yet.
    async fn waits_for_renewal(&self, answer: &mut TurnAnswer) -> bool {
        let TurnContext { event, id, progress, shared, .. } = &*self.0;
        // A check or a job runs again at its next time anyway.
        let limited = answer.limit.clone().filter(|_| event.kind == EventKind::Message);
        let Some(LimitedTurn { limit, backend, model, is_visible, is_resumable }) = limited else {
            return false;
        };
        let (limits, now) = (&shared.limits, shared.now());
        limits.mark_limited(&backend, limit.until, now);
        let runs_again =
            || !is_visible && progress.leave_to_next_start() != Some(NextStart::AskPeople);
        if let Some(next) = self.rotate(&backend, model.as_deref()).await {
            let text = messages::rotates(&answer.backend, &next, limit.allowance.as_deref());
            if runs_again() {
                self.announce(text).await;
                return true;
            }
            if may_continue(shared) {
                continue_later(answer, id, text);
            }
            return false;
        }
        let Some(note) = limits.hold(&event.lane, id, &backend, model, limit, now).await else {
            return false;
        };
        if runs_again() {
            return true;
        }
        if is_resumable && may_continue(shared) {
            let failure = messages::continues(&answer.backend, &note, now);
            continue_later(answer, id, failure);
        }
        false
    }

    /// Lets another account of the same agent serve the lane, if the operator wants that and the
    /// account may be used. Returns the label of its backend.
    async fn rotate(&self, backend: &str, model: Option<&str>) -> Option<String> {
        let (shared, lane, now) = (&self.0.shared, &self.0.event.lane, self.0.now());
        if !shared.deps.choices.waits_for_limits {
            return None;
        }
        let accounts = shared.deps.backends.rotation(backend);
        let at = accounts.iter().position(|account| account == backend)?;
        let (_, settings) = shared.channels.backend_of(lane).await;
        let offered = shared.channels.offered(lane, &settings);
        let mut others = accounts[at + 1..].iter().chain(&accounts[..at]);
        let next = others.find(|name| {
            offered.iter().any(|choice| choice.id == **name) && !shared.limits.is_limited(name, now)
        })?;
        let bindings = &shared.deps.workspace.state.bindings;
        let mut choices = bindings.get(lane, backend).await.settings;
        // The conversation keeps its model and the like, but not its directory, which people do not
        // choose.
        choices.remove(DIRECTORY);
        if let Some(model) = model {
            choices.insert(Setting::Model.name().to_owned(), model.to_owned());
        }
        let changed = async {
            for (name, value) in choices {
                bindings.set_setting(lane, next, &name, Some(value)).await?;
            }
            bindings.set_backend(lane, next).await
        };
        if let Err(error) = changed.await {
            tracing::error!(%lane, error = %with_causes(&error), "cannot save the change to another account; the lane waits for the end of the usage limit");
            return None;
        }
        tracing::warn!(%lane, backend, account = next, "the agent reached a usage limit; another account serves the lane");
        offered.into_iter().find(|choice| choice.id == *next).map(|choice| choice.label)
    }

    /// Notifies the author of the event that another account answers it.
    async fn announce(&self, text: String) {
        let TurnContext { event, shared, .. } = &*self.0;
        let (channel, about) = notice_target(event);
        if channel.is_some() || event.lane == Lane::Console {
            // This notice is not essential, and the outlet has logged the failure.
            let text = shared.deps.redactor.redact(text);
            let notice = Notice { channel, about, text, offers: Vec::new() };
            let _ = shared.deps.outlet.notify(notice).await;
        }
    }
}

/// Lets a new event continue a turn which a limit ended. The failure names the allowance.
fn continue_later(answer: &mut TurnAnswer, turn: &str, failure: String) {
    answer.continuation = Some(Continuation::AfterLimit(turn.to_owned()).key());
    answer.notices.retain(|notice| !notice.starts_with(QUOTA_IS_USED_UP));
    answer.failure = Some(failure);
}

impl Continuation {
    fn is_after_limit(event: &Event) -> bool {
        matches!(Self::of(event), Some(Self::AfterLimit(_)))
    }
}
