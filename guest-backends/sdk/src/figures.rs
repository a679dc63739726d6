//! A plausibility check for token counts, because agents change what they count without notice.

use crate::wit::Usage;

/// Tokens an agent may use beyond the requests that it reported during a turn, for example for
/// titles and summaries.
const UNREPORTED: u32 = 4_000;

/// Returns whether the total that an agent reports at the end of a turn is plausible, given the sum
/// of the single requests that it reported while the turn ran. The total may be larger by half plus
/// 4000 tokens. If no request was reported, any total is plausible. Not for turns in
/// which something else used tokens, such as sub-agents.
///
/// This detects totals of the session reported as those of the turn: in a resumed session the same
/// tokens are counted at least twice.
#[must_use]
pub fn fits(total: &Usage, seen: &Usage) -> bool {
    let (total, seen) = (tokens(total), tokens(seen));
    seen == 0 || total <= seen.saturating_add(seen / 2).saturating_add(u64::from(UNREPORTED))
}

fn tokens(usage: &Usage) -> u64 {
    [usage.input, usage.output, usage.cached].into_iter().map(u64::from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end::tokens as used;

    #[test]
    fn totals_of_a_session_do_not_fit_its_last_turn() {
        for (total, seen, fit) in [
            (20_015, 20_015, true),
            (23_000, 20_015, true),
            (40_030, 20_015, false),
            (100_075, 20_015, false),
        ] {
            assert_eq!(
                fits(&used(total, 0), &used(seen, 0)),
                fit,
                "{total} where {seen} were seen"
            );
        }
        assert!(fits(&used(3_000, 10), &used(100, 10)), "the agent also generated a title");
        assert!(fits(&used(1_000_000, 0), &used(0, 0)), "no request was reported");
        assert!(fits(&used(u32::MAX, u32::MAX), &used(u32::MAX, u32::MAX)));
    }
}
