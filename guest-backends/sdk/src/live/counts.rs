/// The numbers counted on a link, which goes on counting when it moves to another instance: the
/// host knows turns and timers by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Turns the agent began.
    pub(super) own_turns: u32,
    /// Timers that were set.
    pub(super) timers: u32,
}

/// Begins a state that has them in front of the agent's own. Without it nothing was counted.
const MARK: &str = "counted ";

impl Counts {
    /// Puts them in front of the agent's state, where there is anything to say.
    pub(super) fn before(self, state: String) -> String {
        if self == Self::default() && !state.starts_with(MARK) {
            return state;
        }
        format!("{MARK}{} {}\n{state}", self.own_turns, self.timers)
    }

    /// Tells them from the agent's state.
    pub(super) fn split(state: &str) -> (Self, &str) {
        let counted = || {
            let (counts, rest) = state.strip_prefix(MARK)?.split_once('\n')?;
            let (own_turns, timers) = counts.split_once(' ')?;
            Some((Self { own_turns: own_turns.parse().ok()?, timers: timers.parse().ok()? }, rest))
        };
        counted().unwrap_or((Self::default(), state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_saved_comes_back_whatever_it_is() {
        for counts in [Counts::default(), Counts { own_turns: 2, timers: 7 }] {
            for state in ["", "{}", "counted 1 2\nof its own", "counted", "two\nlines"] {
                assert_eq!(Counts::split(&counts.before(state.to_owned())), (counts, state));
            }
        }
        assert_eq!(
            Counts::split("{\"form\":1}"),
            (Counts::default(), "{\"form\":1}"),
            "as it was saved before anything was counted"
        );
    }
}
