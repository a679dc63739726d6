//! The tool `aetheel_schedule`: turns at the times of a cron expression.

use async_trait::async_trait;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::later::{MAX_NAME, entry, iso_time, save_once};
use super::limits::MAX_AHEAD_DAYS;
use super::{HostCall, HostCallError, HostToolEffect, approval};
use crate::delegated::CallingTurn;
use aetheel_model::event::AgentCause;
use aetheel_model::plain::short_line;
use aetheel_model::schedule::Cron;
use aetheel_model::shown_time::shown_date;
use aetheel_store::workspace::{AgentSchedule, CronTimes};
use aetheel_turn::RepeatedTurn;

/// Number of days that a schedule lasts if the call names no number.
const USUAL_DAYS: i64 = 30;
/// Shortest time between two turns of a schedule.
const MIN_INTERVAL: SignedDuration = SignedDuration::from_mins(15);
/// Number of times of a schedule of which the intervals are checked.
const CHECKED_TIMES: usize = 300;
/// Number of times of a schedule that people see.
const SHOWN_TIMES: usize = 3;

#[async_trait]
impl HostToolEffect for RepeatedTurn {
    fn asks_people(&self, _turn: &CallingTurn) -> bool {
        true
    }

    async fn carry_out(&self, call: &HostCall) -> Result<String, HostCallError> {
        let done = |entry: &AgentSchedule| {
            let (next, until) = (iso_time(entry.next), iso_time(Some(entry.until)));
            format!(
                "A schedule is set: the first turn is at {next}, the last before {until}.\nIts id is `{}`.",
                entry.id
            )
        };
        let new = async {
            if call.pending.turn.event.by_agent.is_some() {
                return Err(HostCallError::ByAgent);
            }
            let now = call.shared.now();
            let zone = self.time_zone.clone().unwrap_or_else(|| "UTC".to_owned());
            let times = CronTimes { expression: self.cron.trim().to_owned(), zone };
            let days = self.days.map_or(USUAL_DAYS, i64::from).clamp(1, MAX_AHEAD_DAYS);
            let until = now + SignedDuration::from_hours(24 * days);
            let (cron, zone) = parse(&times)?;
            let next = cron.next(now, &zone).filter(|next| *next <= until);
            let next = next.ok_or(HostCallError::Never(days))?;
            check_intervals(&cron, &zone, next, until)?;
            let entry = entry(call, AgentCause::Schedule, next, until, &self.text)?;
            let what = format!(
                "May the agent work on this by itself: {}, until {}?",
                repetition(&cron, &zone, next),
                shown_date(until)
            );
            let by = approval::ask(call, &what, &self.text).await?;
            let allowed_by = Some(short_line(&by, MAX_NAME)).filter(|by| !by.is_empty());
            Ok(AgentSchedule { cron: Some(times), allowed_by, ..entry })
        };
        save_once(call, done, new).await
    }
}

/// Returns the first times of a schedule, for people.
fn repetition(cron: &Cron, zone: &TimeZone, first: Timestamp) -> String {
    let times = std::iter::successors(Some(first), |last| cron.next(*last, zone));
    let times: Vec<String> = times.take(SHOWN_TIMES).map(shown_date).collect();
    let more = if times.len() == SHOWN_TIMES { " and so on" } else { "" };
    format!("{}{more}", times.join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_at_least_a_quarter_of_an_hour_between_two_times() {
        let check = |expression: &str| {
            let times = CronTimes { expression: expression.to_owned(), zone: "UTC".to_owned() };
            let (cron, zone) = parse(&times).expect("valid");
            let now: Timestamp = "2026-11-26T12:00:00Z".parse().expect("a time");
            let until = now + SignedDuration::from_hours(24 * 30);
            let first = cron.next(now, &zone).expect("a time");
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
