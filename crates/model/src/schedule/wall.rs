//! Converts local time to instants, with a rule for times that a clock shows twice or never.
//!
//! Expressions and intervals are evaluated on a clock that never changes ([`WallSeconds`]); only
//! the result is converted to the time of a zone. The result is always after the given instant.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// Local time: seconds from 1970-01-01 00:00 as a clock shows it.
pub type WallSeconds = i64;

/// The policy for ticks at a change of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockChangePolicy {
    /// A time that the clock skips runs at the first instant after the change; a time that it shows
    /// twice runs the first time. This is for times of the day.
    Once,
    /// A time that the clock skips does not run, and a time that it shows twice runs twice. This is
    /// for hourly rhythms.
    Each,
}

/// Returns the first tick after an instant. `from` returns the first tick at or after a moment of
/// local time.
pub(super) fn next(
    zone: &TimeZone,
    after: Timestamp,
    across: ClockChangePolicy,
    from: impl Fn(WallSeconds) -> Option<WallSeconds>,
) -> Option<Timestamp> {
    let (mut offset, mut moment) = (zone.to_offset(after), wall_time_at(zone, after) + 1);
    match across {
        ClockChangePolicy::Once => loop {
            let tick = from(moment)?;
            let instant = once(zone, tick)?;
            // The clock repeats a time that already ran.
            if instant > after {
                return Some(instant);
            }
            moment = tick + 1;
        },
        ClockChangePolicy::Each => {
            let mut changes = zone.following(after);
            loop {
                let instant = at(from(moment)?, offset)?;
                match changes.next() {
                    Some(change) if change.timestamp() <= instant => {
                        offset = change.offset();
                        moment = change.timestamp().as_second() + i64::from(offset.seconds());
                    }
                    _ => return Some(instant),
                }
            }
        }
    }
}

fn wall_time_at(zone: &TimeZone, instant: Timestamp) -> WallSeconds {
    instant.as_second() + i64::from(zone.to_offset(instant).seconds())
}

/// Returns the instant at which a tick runs with [`ClockChangePolicy::Once`].
fn once(zone: &TimeZone, tick: WallSeconds) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(civil(tick)?).offset() {
        AmbiguousOffset::Unambiguous { offset } => at(tick, offset),
        AmbiguousOffset::Fold { before, .. } => at(tick, before),
        AmbiguousOffset::Gap { after, .. } => {
            zone.following(at(tick, after)?).next().map(|change| change.timestamp())
        }
    }
}

fn at(tick: WallSeconds, offset: Offset) -> Option<Timestamp> {
    Timestamp::from_second(tick - i64::from(offset.seconds())).ok()
}

pub(super) fn civil(wall: WallSeconds) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(Timestamp::from_second(wall).ok()?))
}

/// Returns the local time of a date and time, or `None` outside the supported years.
pub(super) fn wall(shown: DateTime) -> Option<WallSeconds> {
    Offset::UTC.to_timestamp(shown).ok().map(Timestamp::as_second)
}
