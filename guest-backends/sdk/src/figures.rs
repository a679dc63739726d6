//! Whether figures can be: agents change what they count, and nobody would notice.

use crate::wit::Usage;

/// Tokens that nothing was told of while the turn ran, and that are nothing to wonder at: titles,
/// summaries.
const BESIDE: u32 = 4_000;

/// Whether what an agent tells of a turn at its end can be what it used, given what it told of the
/// single requests while the turn ran. It may be more by [`BESIDE`] tokens and half as much again;
/// where nothing was told, anything can be. Not for turns in which something else used tokens, as
/// sub-agents do.
///
/// A turn's figures cannot be those of the session: one that continues a session has the same
/// tokens twice in them at least.
#[must_use]
pub fn fits(told: &Usage, seen: &Usage) -> bool {
    let (told, seen) = (tokens(told), tokens(seen));
    seen == 0 || told <= seen.saturating_add(seen / 2).saturating_add(u64::from(BESIDE))
}

fn tokens(usage: &Usage) -> u64 {
    [usage.input, usage.output, usage.cached].into_iter().map(u64::from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end::tokens as used;

    #[test]
    fn the_tokens_of_a_session_are_not_those_of_its_last_turn() {
        for (told, seen, fit) in [
            (20_015, 20_015, true),
            (23_000, 20_015, true),
            (40_030, 20_015, false),
            (100_075, 20_015, false),
        ] {
            assert_eq!(fits(&used(told, 0), &used(seen, 0)), fit, "{told} where {seen} were seen");
        }
        assert!(fits(&used(3_000, 10), &used(100, 10)), "a title is made beside a short answer");
        assert!(fits(&used(1_000_000, 0), &used(0, 0)), "nothing is known");
        assert!(fits(&used(u32::MAX, u32::MAX), &used(u32::MAX, u32::MAX)));
    }
}
