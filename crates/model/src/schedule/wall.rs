//! From the clock on the wall to instants: what happens to a time that a clock shows twice, or
//! never.
//!
//! Expressions and intervals are searched on a clock that is never changed ([`Wall`]); only the
//! result is laid onto the time of a zone. The result is always after the instant asked for.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// Seconds from 1970-01-01 00:00 to what a clock on the wall shows.
pub type Wall = i64;

/// The fate of ticks where the clock is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    /// A time that the clock passes over is made up at the first instant after; of one that it
    /// shows twice, the first counts. For what has a time of day.
    Once,
    /// A time the clock passes over is left out, one it shows twice counts twice. For things that
    /// come round hour by hour.
    Each,
}

/// Returns the first tick after an instant. `from` gives the first tick at or after a moment of the
/// wall clock.
pub(super) fn next(
    zone: &TimeZone,
    after: Timestamp,
    across: Across,
    from: impl Fn(Wall) -> Option<Wall>,
) -> Option<Timestamp> {
    let (mut offset, mut moment) = (zone.to_offset(after), shown(zone, after) + 1);
    match across {
        Across::Once => loop {
            let tick = from(moment)?;
            let instant = once(zone, tick)?;
            // The clock shows for the second time what counted the first time.
            if instant > after {
                return Some(instant);
            }
            moment = tick + 1;
        },
        Across::Each => {
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

/// Reads the clock of a zone at an instant.
fn shown(zone: &TimeZone, instant: Timestamp) -> Wall {
    instant.as_second() + i64::from(zone.to_offset(instant).seconds())
}

/// The instant at which [`Across::Once`] counts.
fn once(zone: &TimeZone, tick: Wall) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(civil(tick)?).offset() {
        AmbiguousOffset::Unambiguous { offset } => at(tick, offset),
        AmbiguousOffset::Fold { before, .. } => at(tick, before),
        AmbiguousOffset::Gap { after, .. } => {
            zone.following(at(tick, after)?).next().map(|change| change.timestamp())
        }
    }
}

fn at(tick: Wall, offset: Offset) -> Option<Timestamp> {
    Timestamp::from_second(tick - i64::from(offset.seconds())).ok()
}

/// The date and time that a clock shows.
pub(super) fn civil(wall: Wall) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(Timestamp::from_second(wall).ok()?))
}

/// Returns the wall time of a date and time; none: outside the years that can be told.
pub(super) fn wall(shown: DateTime) -> Option<Wall> {
    Offset::UTC.to_timestamp(shown).ok().map(Timestamp::as_second)
}
