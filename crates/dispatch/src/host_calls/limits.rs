//! The limits of what agents may ask for beyond their turn.

/// Maximum number of hand-offs since a person asked.
pub(super) const MAX_HOPS: u32 = 2;
/// Maximum number of turns at later times in a lane. A schedule counts once.
pub(super) const MAX_OPEN: usize = 10;
/// Maximum number of times in a row that work is continued after a sleep.
pub(super) const MAX_SLEEPS: u32 = 12;
/// Maximum number of days until a reminder, and of days that a schedule lasts.
pub(super) const MAX_AHEAD_DAYS: i64 = 90;
