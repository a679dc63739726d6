//! Lanes that wait until an allowance of their agent's account is renewed.
//!
//! When a turn ends because of a usage limit and the agent reports when the limit ends, the lane
//! waits until then instead of losing the prompt. `parts/usage_limits` decides how the turn
//! continues, `lanes/holds` has the lane, [`messages`] has the words, and `state/limits.md` keeps the time
//! over restarts. `docs/limits.md` describes all of it. Tested by `tests/dispatch/limits.rs`.

pub(crate) mod messages;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::deps::DispatcherDeps;
use super::outlet::limited::ReachedLimit;
use aetheel_model::event::Lane;
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::LimitNote;

/// How many turns in a row may reach a limit before the lane no longer waits.
const MAX_ATTEMPTS: u32 = 10;
/// The shortest wait after the second turn in a row, doubled with each further one, and the longest
/// of these. An agent that reports times in the past would otherwise be started again and again.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(30);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_hours(1);

/// Returns the earliest time of the next turn after this many turns in a row that reached a limit.
fn earliest(attempt: u32, now: Timestamp) -> Timestamp {
    let Some(doublings) = attempt.checked_sub(2) else { return now };
    let factor = 1_i32.checked_shl(doublings.min(20)).unwrap_or(i32::MAX);
    let wait = FIRST_BACKOFF.checked_mul(factor).map_or(MAX_BACKOFF, |wait| wait.min(MAX_BACKOFF));
    now.checked_add(wait).unwrap_or(now)
}

/// The lanes that wait for the end of a usage limit.
pub(crate) struct UsageLimits {
    deps: Arc<DispatcherDeps>,
    /// The backends whose agents reached a limit in any lane of this process, and until when.
    limited: Mutex<HashMap<String, Timestamp>>,
}

impl UsageLimits {
    pub(crate) fn new(deps: Arc<DispatcherDeps>) -> Self {
        Self { deps, limited: Mutex::default() }
    }

    /// Records that the agent of a backend reached a limit. It counts as limited for at least
    /// [`FIRST_BACKOFF`], also if the agent says that the limit has ended.
    pub(crate) fn mark_limited(&self, backend: &str, until: Timestamp, now: Timestamp) {
        let earliest = now.checked_add(FIRST_BACKOFF).unwrap_or(now);
        self.limited.lock().insert(backend.to_owned(), until.max(earliest));
    }

    /// Records that a turn of a backend succeeded, so that its agent has no limit.
    pub(crate) fn unmark(&self, backend: &str) {
        self.limited.lock().remove(backend);
    }

    /// Returns whether the agent of a backend reached a limit in any lane that has not ended.
    pub(crate) fn is_limited(&self, backend: &str, now: Timestamp) -> bool {
        let notes = self.deps.workspace.state.limits.all();
        self.limited.lock().get(backend).is_some_and(|until| *until > now)
            || notes.iter().any(|note| note.backend == backend && note.until > now)
    }

    /// Lets a lane wait for the end of a limit that a turn reached. Returns `None` if the lane does
    /// not wait: the operator does not want that, or too many turns in a row reached a limit. A
    /// turn that ends again after a restart counts once.
    pub(crate) async fn hold(
        &self,
        lane: &Lane,
        turn: &str,
        backend: &str,
        model: Option<String>,
        reached: ReachedLimit,
        now: Timestamp,
    ) -> Option<LimitNote> {
        if !self.deps.choices.waits_for_limits {
            return None;
        }
        let before = self.deps.workspace.state.limits.get(lane);
        let before = before.filter(|note| note.backend == backend && note.model == model);
        let attempt = before.map_or(1, |note| note.attempt + u32::from(note.turn != turn));
        if attempt > MAX_ATTEMPTS {
            tracing::error!(%lane, backend, attempt, "the lane no longer waits: each turn reached a usage limit again");
            self.forget(lane).await;
            return None;
        }
        let note = LimitNote {
            lane: lane.clone(),
            backend: backend.to_owned(),
            model,
            until: reached.until.max(earliest(attempt, now)),
            attempt,
            turn: turn.to_owned(),
            allowance: reached.allowance.map(|name| self.deps.redactor.redact(name)),
        };
        tracing::warn!(%lane, backend, attempt, until = %note.until, allowance = note.allowance, "the agent reached a usage limit; the lane waits");
        if let Err(error) = self.deps.workspace.state.limits.save(note.clone()).await {
            tracing::error!(%lane, error = %with_causes(&error), "cannot save state/limits.md; after a restart the lane tries again at once");
        }
        Some(note)
    }

    /// Returns the limit for which a lane with this backend and model waits.
    pub(crate) fn in_force(
        &self,
        lane: &Lane,
        backend: &str,
        model: Option<&str>,
        now: Timestamp,
    ) -> Option<LimitNote> {
        self.deps.workspace.state.limits.get(lane).filter(|note| {
            note.until > now && note.backend == backend && note.model.as_deref() == model
        })
    }

    /// Ends the wait of a lane, because a turn succeeded or people stopped the lane.
    pub(crate) async fn forget(&self, lane: &Lane) {
        let notes = &self.deps.workspace.state.limits;
        if notes.get(lane).is_none() {
            return;
        }
        if let Err(error) = notes.remove(lane.clone()).await {
            tracing::warn!(%lane, error = %with_causes(&error), "cannot save state/limits.md; after a restart the lane may wait again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-26T12:00:00Z".parse().expect("a time")
    }

    #[test]
    fn repeated_limits_wait_longer_each_time() {
        let waits: Vec<i64> = (1..=11)
            .map(|attempt| earliest(attempt, now()).duration_since(now()).as_secs())
            .collect();
        assert_eq!(waits, [0, 30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]);
        assert_eq!(earliest(u32::MAX, now()).duration_since(now()), MAX_BACKOFF);
    }
}
