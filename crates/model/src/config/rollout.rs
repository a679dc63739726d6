//! How a new version of a backend replaces the one that serves.

use std::num::NonZeroU32;

/// How a new version of a backend replaces the one that serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    /// It serves as soon as it is admitted.
    #[default]
    Now,
    /// It first reads this many turns that the other version served, without effect.
    Shadow(NonZeroU32),
}

impl Rollout {
    /// Parses a setting such as `shadow:20`. Returns `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (word, value) = text.split_once(':').unwrap_or((text, ""));
        match (word.trim(), value.trim()) {
            ("now", "") => Some(Self::Now),
            ("shadow", turns) => turns.parse().ok().map(Self::Shadow),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_values_are_accepted() {
        let shadow = |turns| Some(Rollout::Shadow(NonZeroU32::new(turns).expect("not zero")));
        assert_eq!(Rollout::parse("now"), Some(Rollout::Now));
        assert_eq!(Rollout::parse("shadow:20"), shadow(20));
        assert_eq!(Rollout::parse(" shadow : 1 "), shadow(1));
        for text in ["", "shadow", "shadow:0", "shadow:-1", "shadow:x", "now:1", "later"] {
            assert_eq!(Rollout::parse(text), None, "{text:?}");
        }
    }
}
