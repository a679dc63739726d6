/// Counters of a link. They continue when the link moves to another instance, because the host
/// identifies turns, timers and calls of its tools by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Turns that the agent began.
    pub(super) own_turns: u32,
    /// Timers that were set.
    pub(super) timers: u32,
    /// Calls of tools of the host.
    pub(super) calls: u32,
}

/// Prefix of a saved state that contains counters. Without it all counters are 0.
const MARK: &str = "counted ";

impl Counts {
    /// Prepends the counters to the agent's state unless all are 0.
    pub(super) fn before(self, state: String) -> String {
        if self == Self::default() && !state.starts_with(MARK) {
            return state;
        }
        let Self { own_turns, timers, calls } = self;
        // Versions for contract 0.2 read only two counters.
        let calls = if calls == 0 { String::new() } else { format!(" {calls}") };
        format!("{MARK}{own_turns} {timers}{calls}\n{state}")
    }

    /// Separates the counters from the agent's state.
    pub(super) fn split(state: &str) -> (Self, &str) {
        let counted = || {
            let (counts, rest) = state.strip_prefix(MARK)?.split_once('\n')?;
            let mut counts = counts.split(' ').map(|count| count.parse().ok());
            let (own_turns, timers) = (counts.next()??, counts.next()??);
            let calls = counts.next().unwrap_or(Some(0))?;
            counts.next().is_none().then_some((Self { own_turns, timers, calls }, rest))
        };
        counted().unwrap_or((Self::default(), state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_saved_state_survives_a_round_trip() {
        let timers = Counts { own_turns: 2, timers: 7, calls: 0 };
        for counts in [Counts::default(), timers, Counts { calls: 3, ..timers }] {
            for state in ["", "{}", "counted 1 2\nof its own", "counted", "two\nlines"] {
                assert_eq!(Counts::split(&counts.before(state.to_owned())), (counts, state));
            }
        }
        assert_eq!(
            Counts::split("{\"form\":1}"),
            (Counts::default(), "{\"form\":1}"),
            "a state without counters"
        );
    }
}
