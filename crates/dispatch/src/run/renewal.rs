//! Turns that a usage limit ended.
//!
//! If the operator lets conversations change between the accounts of an agent, the next account that
//! has not reached a limit serves the lane at once. Otherwise, the lane waits for the end of the limit.
//!
//! If people saw nothing of the turn, its event waits in the paused lane and runs again. Otherwise
//! the partial answer is delivered, and a new event continues the conversation once the limit has
//! ended ([`continuation`](super::continuation)).

use super::TurnRunner;
use super::artifacts::QUOTA_IS_USED_UP;
use super::continuation::may_continue;
use crate::channel::DIRECTORY;
use crate::channel::options::Setting;
use crate::limits::{CONTINUATION, messages};
use crate::outlet::limited::LimitedTurn;
use crate::outlet::{Notice, TurnAnswer};
use crate::persistence::{EventProgress, NextStart};
use crate::recovery::restart::notice_target;
use aetheel_model::event::{Event, EventKind, Lane};
use aetheel_model::plain::with_causes;

/// Lets a new event continue a turn which a limit ended. The failure names the allowance.
fn continue_later(answer: &mut TurnAnswer, turn: &str, failure: String) {
    answer.continuation = Some(format!("{CONTINUATION}{turn}"));
    answer.notices.retain(|notice| !notice.starts_with(QUOTA_IS_USED_UP));
    answer.failure = Some(failure);
}

impl TurnRunner {
    /// Lets the lane of a turn wait for the end of the usage limit that ended the turn. Returns
    /// whether the event itself waits, so that there is no answer yet.
    pub(super) async fn wait_for_renewal(
        &self,
        event: &Event,
        turn: &str,
        answer: &mut TurnAnswer,
        kept: &EventProgress,
    ) -> bool {
        // A check or a job runs again at its next time anyway.
        let Some(limited) = answer.limit.take().filter(|_| event.kind == EventKind::Message) else {
            return false;
        };
        let (limits, now) = (&self.shared.limits, self.shared.now());
        let LimitedTurn { limit, backend, model, is_visible, is_resumable } = limited;
        limits.mark_limited(&backend, limit.until, now);
        if let Some(next) = self.rotate(&event.lane, &backend, model.as_deref()).await {
            let text = messages::rotates(&answer.backend, &next, limit.allowance.as_deref());
            if !is_visible && kept.leave_to_next_start() != Some(NextStart::AskPeople) {
                self.announce(event, text).await;
                return true;
            }
            if may_continue(&self.shared) {
                continue_later(answer, turn, text);
            }
            return false;
        }
        let Some(note) = limits.hold(&event.lane, turn, &backend, model, limit, now).await else {
            return false;
        };
        if !is_visible && kept.leave_to_next_start() != Some(NextStart::AskPeople) {
            return true;
        }
        if is_resumable && may_continue(&self.shared) {
            let failure = messages::continues(&answer.backend, &note, now);
            continue_later(answer, turn, failure);
        }
        false
    }

    /// Lets another account of the same agent serve the lane, if the operator wants that and the
    /// account may be used. Returns the label of its backend.
    async fn rotate(&self, lane: &Lane, backend: &str, model: Option<&str>) -> Option<String> {
        let (shared, now) = (&self.shared, self.shared.now());
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

    /// Notifies the author of an event that another account answers it.
    async fn announce(&self, event: &Event, text: String) {
        let (channel, about) = notice_target(event);
        if channel.is_some() || event.lane == Lane::Console {
            // This notice is not essential, and the outlet has logged the failure.
            let text = self.shared.deps.redactor.redact(text);
            let notice = Notice { channel, about, text, offers: Vec::new() };
            let _ = self.shared.deps.outlet.notify(notice).await;
        }
    }
}
