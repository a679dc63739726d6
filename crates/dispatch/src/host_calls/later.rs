//! Turns at later times, which several tools save.

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use sha2::{Digest as _, Sha256};

use super::limits::MAX_OPEN;
use super::{HostCall, HostCallError};
use aetheel_model::event::AgentCause;
use aetheel_model::plain::{hex, short_line, with_causes};
use aetheel_store::workspace::AgentSchedule;

/// Maximum length of the name of a person, in characters.
pub(super) const MAX_NAME: usize = 80;
/// How late a single turn may begin, because no gateway ran at its time.
pub(super) const MAX_LATE: SignedDuration = SignedDuration::from_hours(7 * 24);

const MIN_AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// Returns a time without fractions of a second, for people and models. Discord shows it in the time
/// zone of each reader.
pub(super) fn iso_time(at: Option<Timestamp>) -> String {
    let whole = at.and_then(|at| Timestamp::from_second(at.as_second()).ok());
    whole.map(|at| at.to_string()).unwrap_or_default()
}

/// Returns the time of a turn, which is at most `max_days` from now.
///
/// # Errors
/// [`HostCallError::InvalidTime`] or [`HostCallError::OutOfRange`].
pub(super) fn time(
    at: Option<&str>,
    after: Option<&str>,
    now: Timestamp,
    max_days: i64,
) -> Result<Timestamp, HostCallError> {
    let invalid = |text: &str, expected: &'static str| HostCallError::InvalidTime {
        text: text.to_owned(),
        expected,
    };
    let at = match at {
        Some(text) => {
            let time = text.trim().parse::<Timestamp>();
            time.map_err(|_| invalid(text, "a time such as `2026-03-01T09:00:00+01:00`"))?
        }
        None => {
            let text = after.unwrap_or_default();
            let span: Result<Span, _> = text.trim().parse();
            let duration =
                span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
            let duration = duration.map_err(|_| invalid(text, "a duration such as `2h 30m`"))?;
            now.checked_add(duration).map_err(|_| HostCallError::OutOfRange(max_days))?
        }
    };
    let ahead = at.duration_since(now);
    if ahead < MIN_AHEAD || ahead > SignedDuration::from_hours(24 * max_days) {
        return Err(HostCallError::OutOfRange(max_days));
    }
    Ok(at)
}

/// Saves the turn that a call asks for, unless the call has saved it before. Returns the result for
/// the model.
///
/// # Errors
/// Returns the error of `new`, or an error of saving.
pub(super) async fn save_once(
    call: &HostCall,
    done: impl FnOnce(&AgentSchedule) -> String,
    new: impl Future<Output = Result<AgentSchedule, HostCallError>>,
) -> Result<String, HostCallError> {
    let id = id(call);
    let schedules = &call.shared.deps.workspace.state.agent_schedules;
    if let Some(entry) = schedules.all().iter().find(|entry| entry.id == id) {
        return Ok(done(entry));
    }
    let entry = new.await?;
    let (lane, sleeps) = (entry.lane.clone(), is_open_sleep(&entry));
    let fits = move |known: &mut dyn Iterator<Item = &AgentSchedule>| {
        let open: Vec<_> =
            known.filter(|known| known.lane == lane && known.next.is_some()).collect();
        open.len() < MAX_OPEN && !(sleeps && open.into_iter().any(is_open_sleep))
    };
    match schedules.add(entry.clone(), call.shared.now(), fits).await {
        Ok(true) => {
            let next = entry.next.map(|next| next.to_string());
            tracing::info!(id, cause = ?entry.cause, next, "the agent asked for a later turn");
            Ok(done(&entry))
        }
        Ok(false) => Err(HostCallError::TooManyOpen),
        Err(error) => {
            tracing::error!(error = %with_causes(&error), "cannot save state/agent-schedules.md");
            Err(HostCallError::NotSaved(error))
        }
    }
}

fn id(call: &HostCall) -> String {
    hex(&Sha256::digest(call.effect_key())[..5])
}

/// Returns a turn that belongs to the conversation of the call.
///
/// # Errors
/// [`HostCallError::NotInAChannel`].
pub(super) fn entry(
    call: &HostCall,
    cause: AgentCause,
    next: Timestamp,
    until: Timestamp,
    text: &str,
) -> Result<AgentSchedule, HostCallError> {
    call.channel()?;
    let event = &call.pending.turn.event;
    let redact = |text| call.shared.deps.redactor.redact(text);
    Ok(AgentSchedule {
        id: id(call),
        lane: event.lane.clone(),
        cause,
        next: Some(next),
        until,
        naps: 0,
        asker: event.asker,
        name: event.author.as_ref().map(|name| redact(short_line(name, MAX_NAME))),
        allowed_by: None,
        parent: call.pending.turn.parent(),
        cron: None,
        text: redact(text.trim().to_owned()),
    })
}

pub(super) fn is_open_sleep(entry: &AgentSchedule) -> bool {
    entry.cause == AgentCause::Sleep && entry.next.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-26T12:00:00Z".parse().expect("a time")
    }

    fn at(at: Option<&str>, after: Option<&str>) -> Result<String, String> {
        let found = time(at, after, now(), 2);
        found.map(|at| at.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_time_is_absolute_or_relative_and_within_its_range() {
        assert_eq!(at(None, Some("1d 2h")).as_deref(), Ok("2026-11-27T14:00:00Z"));
        let zoned = at(Some("2026-11-26T14:00:00+01:00"), None);
        assert_eq!(zoned.as_deref(), Ok("2026-11-26T13:00:00Z"));
        for (time, after) in [
            (None, Some("30s")),
            (None, Some("-2h")),
            (None, Some("49h")),
            (Some("2020-01-01T00:00:00Z"), None),
        ] {
            let refusal = at(time, after).expect_err("out of range");
            assert_eq!(refusal, "the time must be between one minute and 2 days from now");
        }
        assert!(at(None, Some("soon")).expect_err("no time").contains("`2h 30m`"));
        assert!(at(Some("tomorrow"), None).expect_err("no time").contains("is not a time"));
    }
}
