//! How a new version of a backend replaces the one that serves.

use std::num::{NonZeroU8, NonZeroU32};

use crate::id::ChannelId;

/// How a new version of a backend replaces the one that serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    /// It serves as soon as it is admitted.
    #[default]
    Now,
    /// It first reads this many turns that the other version served, without effect.
    Shadow(NonZeroU32),
    /// It first serves a part of the lanes.
    Canary {
        /// The part of the lanes that it serves, at most 100.
        percent: NonZeroU8,
        /// The number of turns that it must serve without harm until it is promoted.
        turns: NonZeroU32,
    },
    /// It serves only these channels and their threads, until the operator promotes it.
    Channels(Vec<ChannelId>),
}

/// The number of turns of `canary:PERCENT` without a number.
const DEFAULT_CANARY_TURNS: NonZeroU32 = NonZeroU32::new(50).expect("not zero");

impl Rollout {
    /// The accepted forms, for messages to the operator.
    pub const FORMS: &'static str = "`now`, `shadow:TURNS`, `canary:PERCENT`, `canary:PERCENT,TURNS` or `channels:ID,ID`, where TURNS is at least 1, PERCENT is 1 to 100 and ID is the id of a Discord channel";

    /// Parses a setting such as `shadow:20`. Returns `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, value) = text.split_once(':').unwrap_or((text, ""));
        match (word.trim(), value.trim()) {
            ("now", "") => Some(Self::Now),
            ("shadow", turns) => turns.parse().ok().map(Self::Shadow),
            ("canary", value) => {
                let (percent, turns) = match value.split_once(',') {
                    Some((percent, turns)) => (percent, turns.trim().parse().ok()?),
                    None => (value, DEFAULT_CANARY_TURNS),
                };
                let percent: NonZeroU8 = percent.trim().parse().ok()?;
                (percent.get() <= 100).then_some(Self::Canary { percent, turns })
            }
            ("channels", ids) => {
                let ids = ids.split(',').map(|id| ChannelId::parse_nonzero(id.trim()));
                ids.collect::<Result<_, _>>().ok().map(Self::Channels)
            }
            _ => None,
        }
    }

    /// Returns whether a new version serves some lanes before it is promoted.
    #[must_use]
    pub fn serves_in_part(&self) -> bool {
        matches!(self, Self::Canary { .. } | Self::Channels(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_values_are_accepted() {
        let number = |number| NonZeroU32::new(number).expect("not zero");
        let canary = |percent, turns| Rollout::Canary {
            percent: NonZeroU8::new(percent).expect("not zero"),
            turns: number(turns),
        };
        let channels =
            |ids: &[u64]| Rollout::Channels(ids.iter().map(|id| ChannelId::discord(*id)).collect());
        for (text, rollout) in [
            ("now", Rollout::Now),
            ("shadow:20", Rollout::Shadow(number(20))),
            (" shadow : 1 ", Rollout::Shadow(number(1))),
            ("canary:10", canary(10, 50)),
            ("canary: 100 , 3", canary(100, 3)),
            ("channels:7", channels(&[7])),
            ("channels: 7, 8", channels(&[7, 8])),
        ] {
            assert_eq!(Rollout::parse(text), Some(rollout), "{text:?}");
        }
        for text in [
            "",
            "shadow",
            "shadow:0",
            "shadow:-1",
            "shadow:x",
            "now:1",
            "later",
            "canary",
            "canary:0",
            "canary:101",
            "canary:10,",
            "canary:10,0",
            "canary:10,1,1",
            "canary:10%",
            "channels",
            "channels:",
            "channels:0",
            "channels:7,",
            "channels:general",
        ] {
            assert_eq!(Rollout::parse(text), None, "{text:?}");
        }
    }
}
