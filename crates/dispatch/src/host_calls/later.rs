//! The tools `aetheel_remind`, `aetheel_sleep_until` and `aetheel_schedule`: turns at later times.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use sha2::{Digest as _, Sha256};

use super::error::HostCallError;
use super::limits::{MAX_AHEAD_DAYS, MAX_OPEN, MAX_SLEEPS};
use super::{approval, effect_key};
use crate::Shared;
use crate::delegated::PendingCall;
use aetheel_model::event::AgentCause;
use aetheel_model::plain::{hex, short_line, with_causes};
use aetheel_model::schedule::Cron;
use aetheel_model::shown_time::shown_date;
use aetheel_store::workspace::{AgentSchedule, CronTimes};
use aetheel_turn::{LaterTurn, RepeatedTurn};

/// Number of days that a schedule lasts if the call names no number.
const USUAL_DAYS: i64 = 30;
/// Maximum length of the name of a person, in characters.
const MAX_NAME: usize = 80;
/// Shortest time between two turns of a schedule.
const MIN_INTERVAL: SignedDuration = SignedDuration::from_mins(15);
/// Number of times of a schedule of which the intervals are checked.
const CHECKED_TIMES: usize = 300;
/// Number of times of a schedule that people see.
const SHOWN_TIMES: usize = 3;
/// How late a single turn may begin, because no gateway ran at its time.
const MAX_LATE: SignedDuration = SignedDuration::from_hours(7 * 24);

const MIN_AHEAD: SignedDuration = SignedDuration::from_mins(1);
const MAX_SLEEP: SignedDuration = SignedDuration::from_hours(7 * 24);

pub(super) async fn remind(
    shared: &Shared,
    pending: &PendingCall,
    request: &LaterTurn,
) -> Result<String, HostCallError> {
    let done = |entry: &AgentSchedule| {
        let at = iso_time(entry.next);
        format!("A reminder is set for {at}.\nYou get a turn then. Its id is `{}`.", entry.id)
    };
    if let Some(entry) = known(shared, pending) {
        return Ok(done(&entry));
    }
    if pending.turn.event.by_agent.is_some() {
        return Err(HostCallError::ByAgent);
    }
    let longest = SignedDuration::from_hours(24 * MAX_AHEAD_DAYS);
    let range = "between one minute and 90 days";
    let at = time(request, shared.now(), longest, range)?;
    let entry = entry(shared, pending, AgentCause::Reminder, at, at + MAX_LATE, &request.text)?;
    save(shared, entry.clone()).await?;
    Ok(done(&entry))
}

pub(super) async fn sleep(
    shared: &Shared,
    pending: &PendingCall,
    request: &LaterTurn,
) -> Result<String, HostCallError> {
    let done = |entry: &AgentSchedule| {
        let at = iso_time(entry.next);
        format!("The work continues at {at}.\nEnd your turn now. The id is `{}`.", entry.id)
    };
    if let Some(entry) = known(shared, pending) {
        return Ok(done(&entry));
    }
    let naps = match &pending.turn.event.by_agent {
        Some(request) if request.hops > 0 => return Err(HostCallError::ByAgent),
        Some(request) => request.naps,
        None => 0,
    };
    if naps >= MAX_SLEEPS {
        return Err(HostCallError::TooManySleeps);
    }
    let range = "between one minute and 7 days";
    let at = time(request, shared.now(), MAX_SLEEP, range)?;
    let entry = entry(shared, pending, AgentCause::Sleep, at, at + MAX_LATE, &request.text)?;
    let entry = AgentSchedule { naps: naps + 1, ..entry };
    let sleeps = |known: &AgentSchedule| known.lane == entry.lane && is_open_sleep(known);
    if shared.deps.workspace.state.agent_schedules.all().iter().any(sleeps) {
        return Err(HostCallError::SleepsAlready);
    }
    save(shared, entry.clone()).await?;
    Ok(done(&entry))
}

pub(super) async fn schedule(
    shared: &Shared,
    pending: &PendingCall,
    request: &RepeatedTurn,
) -> Result<String, HostCallError> {
    let done = |entry: &AgentSchedule| {
        let (next, until) = (iso_time(entry.next), iso_time(Some(entry.until)));
        format!(
            "A schedule is set: the first turn is at {next}, the last before {until}.\nIts id is `{}`.",
            entry.id
        )
    };
    if let Some(entry) = known(shared, pending) {
        return Ok(done(&entry));
    }
    if pending.turn.event.by_agent.is_some() {
        return Err(HostCallError::ByAgent);
    }
    let now = shared.now();
    let zone = request.time_zone.clone().unwrap_or_else(|| "UTC".to_owned());
    let times = CronTimes { expression: request.cron.trim().to_owned(), zone };
    let days = request.days.map_or(USUAL_DAYS, i64::from).clamp(1, MAX_AHEAD_DAYS);
    let until = now + SignedDuration::from_hours(24 * days);
    let (cron, zone) = parse(&times)?;
    let next = cron.next(now, &zone).filter(|next| *next <= until);
    let next = next.ok_or(HostCallError::Never(days))?;
    check_intervals(&cron, &zone, next, until)?;
    let entry = entry(shared, pending, AgentCause::Schedule, next, until, &request.text)?;
    let what = format!(
        "May the agent work on this by itself: {}, until {}?",
        repetition(&cron, &zone, next),
        shown_date(until)
    );
    let by = approval::ask(shared, pending, &what, &request.text).await?;
    let allowed_by = Some(short_line(&by, MAX_NAME)).filter(|by| !by.is_empty());
    let entry = AgentSchedule { cron: Some(times), allowed_by, ..entry };
    save(shared, entry.clone()).await?;
    Ok(done(&entry))
}

/// Returns the first times of a schedule, for people.
fn repetition(cron: &Cron, zone: &TimeZone, first: Timestamp) -> String {
    let times = std::iter::successors(Some(first), |last| cron.next(*last, zone));
    let times: Vec<String> = times.take(SHOWN_TIMES).map(shown_date).collect();
    let more = if times.len() == SHOWN_TIMES { " and so on" } else { "" };
    format!("{}{more}", times.join(", "))
}

/// Returns a time without fractions of a second, for people and models. Discord shows it in the time
/// zone of each reader.
fn iso_time(at: Option<Timestamp>) -> String {
    let whole = at.and_then(|at| Timestamp::from_second(at.as_second()).ok());
    whole.map(|at| at.to_string()).unwrap_or_default()
}

/// Parses the times of a schedule.
///
/// # Errors
/// [`HostCallError::InvalidTime`].
pub(super) fn parse(times: &CronTimes) -> Result<(Cron, TimeZone), HostCallError> {
    let CronTimes { expression, zone } = times;
    let cron = expression.parse().map_err(|_| HostCallError::InvalidTime {
        text: expression.clone(),
        expected: "a cron expression such as `0 9 * * 1-5`",
    })?;
    let zone = TimeZone::get(zone).map_err(|_| HostCallError::InvalidTime {
        text: zone.clone(),
        expected: "a time zone such as `Europe/Berlin`",
    })?;
    Ok((cron, zone))
}

/// Checks that the times up to the end are not too close together.
fn check_intervals(
    cron: &Cron,
    zone: &TimeZone,
    first: Timestamp,
    until: Timestamp,
) -> Result<(), HostCallError> {
    let mut last = first;
    for _ in 0..CHECKED_TIMES {
        match cron.next(last, zone) {
            Some(next) if next > until => return Ok(()),
            Some(next) if next.duration_since(last) < MIN_INTERVAL => {
                return Err(HostCallError::TooOften);
            }
            Some(next) => last = next,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Returns the time of a turn.
fn time(
    request: &LaterTurn,
    now: Timestamp,
    longest: SignedDuration,
    range: &'static str,
) -> Result<Timestamp, HostCallError> {
    let invalid = |text: &str, expected: &'static str| HostCallError::InvalidTime {
        text: text.to_owned(),
        expected,
    };
    let at = match (&request.at, &request.after) {
        (Some(text), _) => {
            let time = text.trim().parse::<Timestamp>();
            time.map_err(|_| invalid(text, "a time such as `2026-03-01T09:00:00+01:00`"))?
        }
        (None, after) => {
            let text = after.as_deref().unwrap_or_default();
            let span: Result<Span, _> = text.trim().parse();
            let duration =
                span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
            let duration = duration.map_err(|_| invalid(text, "a duration such as `2h 30m`"))?;
            now.checked_add(duration).map_err(|_| HostCallError::OutOfRange(range))?
        }
    };
    let ahead = at.duration_since(now);
    if ahead < MIN_AHEAD || ahead > longest {
        return Err(HostCallError::OutOfRange(range));
    }
    Ok(at)
}

/// Returns the entry that the call has saved before.
fn known(shared: &Shared, pending: &PendingCall) -> Option<AgentSchedule> {
    let id = id(pending);
    shared.deps.workspace.state.agent_schedules.all().into_iter().find(|entry| entry.id == id)
}

fn id(pending: &PendingCall) -> String {
    hex(&Sha256::digest(effect_key(pending))[..5])
}

fn entry(
    shared: &Shared,
    pending: &PendingCall,
    cause: AgentCause,
    next: Timestamp,
    until: Timestamp,
    text: &str,
) -> Result<AgentSchedule, HostCallError> {
    let event = &pending.turn.event;
    if pending.turn.channel().is_none() {
        return Err(HostCallError::NotInAChannel(event.lane.to_string()));
    }
    let redact = |text| shared.deps.redactor.redact(text);
    Ok(AgentSchedule {
        id: id(pending),
        lane: event.lane.clone(),
        cause,
        next: Some(next),
        until,
        naps: 0,
        asker: event.asker,
        name: event.author.as_ref().map(|name| redact(short_line(name, MAX_NAME))),
        allowed_by: None,
        parent: pending.turn.parent(),
        cron: None,
        text: redact(text.trim().to_owned()),
    })
}

fn is_open_sleep(entry: &AgentSchedule) -> bool {
    entry.cause == AgentCause::Sleep && entry.next.is_some()
}

async fn save(shared: &Shared, entry: AgentSchedule) -> Result<(), HostCallError> {
    let (lane, sleeps) = (entry.lane.clone(), is_open_sleep(&entry));
    let (id, cause, next) = (entry.id.clone(), entry.cause, entry.next);
    let fits = move |known: &mut dyn Iterator<Item = &AgentSchedule>| {
        let open: Vec<_> =
            known.filter(|known| known.lane == lane && known.next.is_some()).collect();
        open.len() < MAX_OPEN && !(sleeps && open.into_iter().any(is_open_sleep))
    };
    let notes = &shared.deps.workspace.state.agent_schedules;
    match notes.add(entry, shared.now(), fits).await {
        Ok(true) => {
            let next = next.map(|next| next.to_string());
            tracing::info!(id, ?cause, next, "the agent asked for a later turn");
            Ok(())
        }
        Ok(false) => Err(HostCallError::TooManyOpen),
        Err(error) => {
            tracing::error!(error = %with_causes(&error), "cannot save state/agent-schedules.md");
            Err(HostCallError::NotSaved(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-26T12:00:00Z".parse().expect("a time")
    }

    fn at(at: Option<&str>, after: Option<&str>) -> Result<String, String> {
        let request = LaterTurn {
            at: at.map(str::to_owned),
            after: after.map(str::to_owned),
            text: "x".to_owned(),
        };
        let found = time(&request, now(), SignedDuration::from_hours(48), "soon");
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
            assert_eq!(refusal, "the time must be soon from now");
        }
        assert!(at(None, Some("soon")).expect_err("no time").contains("`2h 30m`"));
        assert!(at(Some("tomorrow"), None).expect_err("no time").contains("is not a time"));
    }

    #[test]
    fn a_schedule_has_at_least_a_quarter_of_an_hour_between_two_times() {
        let check = |expression: &str| {
            let times = CronTimes { expression: expression.to_owned(), zone: "UTC".to_owned() };
            let (cron, zone) = parse(&times).expect("valid");
            let until = now() + SignedDuration::from_hours(24 * 30);
            let first = cron.next(now(), &zone).expect("a time");
            check_intervals(&cron, &zone, first, until).is_ok()
        };
        assert!(check("*/15 * * * *") && check("@daily") && check("0 9 * * 1-5"));
        assert!(!check("* * * * *") && !check("*/14 * * * *") && !check("0,5 9 * * *"));
        for times in [("61 * * * *", "UTC"), ("@daily", "Berlin")] {
            let times = CronTimes { expression: times.0.to_owned(), zone: times.1.to_owned() };
            assert!(parse(&times).is_err(), "{times:?}");
        }
    }
}
