//! The usage limit that ended a turn. Reads the clock; otherwise pure.

use jiff::{SignedDuration, Timestamp, Zoned};

use super::clock_words::renewal_in_words;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{Descriptor, FailureKind, Quota};
use aetheel_model::plain::short_line;
use aetheel_recording::Ending;
use aetheel_turn::TurnResult;

/// The longest time that a lane waits. Weekly allowances are the longest that agents report.
const MAX_WAIT: SignedDuration = SignedDuration::from_hours(8 * 24);
/// The maximum length of the name of an allowance, in characters.
const MAX_ALLOWANCE: usize = 60;

/// A usage limit that a turn reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedLimit {
    /// When the limit ends.
    pub until: Timestamp,
    /// The name of the allowance for people, if the agent named it.
    pub allowance: Option<String>,
}

impl ReachedLimit {
    /// Returns the limit that ended a turn. Returns `None` if the turn ended for another reason, or
    /// if it is not known when the limit ends.
    pub(crate) fn of(ending: &Ending, quota: &[Quota], local: &Zoned) -> Option<Self> {
        let now = local.timestamp();
        let Ending::Agent(failure) = ending else { return None };
        if !matches!(failure.kind, FailureKind::Quota | FailureKind::RateLimited) {
            return None;
        }
        let renewals = quota.iter().filter(|quota| quota.exhausted).filter_map(|quota| {
            let until: Timestamp = quota.resets.as_ref()?.parse().ok()?;
            let label = if quota.label.is_empty() { &quota.id } else { &quota.label };
            Some(Self { until, allowance: Some(short_line(label, MAX_ALLOWANCE)) })
        });
        // If several allowances are used up, the last renewal counts.
        let renewal = renewals.max_by_key(|renewal| renewal.until);
        let reached = renewal.or_else(|| {
            let until = match failure.retry_after_ms {
                Some(wait) => now.checked_add(SignedDuration::from_millis(wait.into())).ok()?,
                None => renewal_in_words(&failure.message, local)?.timestamp(),
            };
            Some(Self { until, allowance: None })
        })?;
        (reached.until.duration_since(now) <= MAX_WAIT).then_some(reached)
    }
}

/// A usage limit that ended a turn, and the facts that decide how the turn continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedTurn {
    /// The limit.
    pub limit: ReachedLimit,
    /// The name of the backend.
    pub backend: String,
    /// The model in force, or `None` for the agent's default.
    pub model: Option<String>,
    /// Whether the agent wrote text or used a tool.
    pub is_visible: bool,
    /// Whether the agent can resume the session.
    pub is_resumable: bool,
}

impl LimitedTurn {
    /// Returns the limit that ended a turn, if one did and it is known when the limit ends. `model`
    /// is the model in force, `is_resumed` states whether the turn continued a session, and `now` is in the time zone of the
    /// machine.
    pub(crate) fn of(
        result: &TurnResult,
        descriptor: &Descriptor,
        model: Option<String>,
        is_resumed: bool,
        now: &Zoned,
    ) -> Option<Self> {
        let quota = result.transcript.quota();
        let limit = ReachedLimit::of(&result.ending, quota, now)?;
        let is_known = result.session.is_some() || is_resumed;
        Some(Self {
            limit,
            backend: descriptor.name.clone(),
            model,
            is_visible: !result.text.is_empty() || !result.transcript.tools().is_empty(),
            is_resumable: descriptor.has(Feature::Resume) && is_known,
        })
    }
}

/// A turn that was stopped, and the facts that decide how it continues. The default is a turn whose
/// agent did not begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutTurn {
    /// Whether the agent wrote text or used a tool.
    pub is_visible: bool,
    /// Whether the agent can resume the session.
    pub is_resumable: bool,
}

impl CutTurn {
    /// Returns the facts about a turn that was stopped, or `None` if it ended for another reason.
    /// `is_resumed` states whether the turn continued a session.
    pub(crate) fn of(
        result: &TurnResult,
        descriptor: &Descriptor,
        is_resumed: bool,
    ) -> Option<Self> {
        (result.ending == Ending::Interrupted).then(|| Self {
            is_visible: !result.text.is_empty() || !result.transcript.tools().is_empty(),
            is_resumable: descriptor.has(Feature::Resume)
                && (result.session.is_some() || is_resumed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::AgentFailure;

    fn now() -> Zoned {
        "2026-11-26T12:00:00+00:00[UTC]".parse().expect("a time")
    }

    fn failed(kind: FailureKind, retry_after_ms: Option<u32>) -> Ending {
        Ending::Agent(AgentFailure { kind, message: String::new(), retry_after_ms })
    }

    fn quota(label: &str, resets: Option<&str>, exhausted: bool) -> Quota {
        Quota {
            id: "id".to_owned(),
            label: label.to_owned(),
            used_percent: None,
            resets: resets.map(str::to_owned),
            exhausted,
        }
    }

    fn reached(ending: &Ending, quota: &[Quota]) -> Option<(String, Option<String>)> {
        let reached = ReachedLimit::of(ending, quota, &now())?;
        Some((reached.until.to_string(), reached.allowance))
    }

    #[test]
    fn the_last_renewal_of_the_exhausted_allowances_counts() {
        let limit = failed(FailureKind::Quota, Some(1_000));
        let all = [
            quota("5 hours", Some("2026-11-26T14:00:00Z"), true),
            quota("", Some("2026-11-26T15:00:00+01:00"), true),
            quota("week", Some("2026-11-27T12:00:00Z"), true),
            quota("month", Some("2026-11-30T12:00:00Z"), false),
        ];
        let week = ("2026-11-27T12:00:00Z".to_owned(), Some("week".to_owned()));
        assert_eq!(reached(&limit, &all), Some(week));
        let unnamed = ("2026-11-26T14:00:00Z".to_owned(), Some("id".to_owned()));
        assert_eq!(reached(&limit, &all[1..2]), Some(unnamed));
    }

    #[test]
    fn without_a_renewal_the_failure_says_when_to_try_again() {
        let soon = Some(("2026-11-26T12:00:05Z".to_owned(), None));
        assert_eq!(reached(&failed(FailureKind::RateLimited, Some(5_000)), &[]), soon);
        let unknown = [quota("5 hours", None, true), quota("day", Some("tomorrow"), true)];
        assert_eq!(reached(&failed(FailureKind::Quota, Some(5_000)), &unknown), soon);
        assert_eq!(reached(&failed(FailureKind::Quota, None), &unknown), None);
    }

    #[test]
    fn without_a_renewal_and_a_wait_the_words_of_the_failure_count() {
        let said = |kind, retry_after_ms, message: &str| {
            let message = message.to_owned();
            reached(&Ending::Agent(AgentFailure { kind, message, retry_after_ms }), &[])
        };
        let words = "You’ve hit your usage limit. Try again at 3:28 PM.";
        let until = |time: &str| Some((time.to_owned(), None));
        assert_eq!(said(FailureKind::Quota, None, words), until("2026-11-26T15:28:00Z"));
        assert_eq!(said(FailureKind::Quota, Some(5_000), words), until("2026-11-26T12:00:05Z"));
        assert_eq!(said(FailureKind::Overloaded, None, words), None);
        let far = "Try again at Dec 30th, 2026 3:28 PM.";
        assert_eq!(said(FailureKind::Quota, None, far), None, "nobody waits that long");
    }

    #[test]
    fn other_failures_and_far_renewals_do_not_hold_a_lane() {
        let renewed = [quota("5 hours", Some("2026-11-26T14:00:00Z"), true)];
        assert_eq!(reached(&failed(FailureKind::Overloaded, Some(5_000)), &renewed), None);
        assert_eq!(reached(&Ending::Completed, &renewed), None);
        let far = [quota("year", Some("2027-11-26T14:00:00Z"), true)];
        assert_eq!(reached(&failed(FailureKind::Quota, None), &far), None);
    }
}
