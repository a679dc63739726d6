//! Decides which lanes a new version serves. Pure.

use sha2::{Digest as _, Sha256};

use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_model::rollout::Rollout;

/// Returns whether the version with this digest serves a lane before it is promoted. `parent` is
/// the channel of the lane's thread.
pub(super) fn includes(
    rollout: &Rollout,
    digest: &str,
    lane: &Lane,
    parent: Option<ChannelId>,
) -> bool {
    match rollout {
        Rollout::Now | Rollout::Shadow(_) => false,
        Rollout::Canary { percent, .. } => hundredth(digest, lane) < u64::from(percent.get()),
        Rollout::Channels(channels) => match lane {
            Lane::Channel(channel) => {
                channels.contains(channel)
                    || parent.is_some_and(|parent| channels.contains(&parent))
            }
            _ => false,
        },
    }
}

/// Assigns a number below 100 to a lane. It is the same in every process, and independent of the
/// number for another version, so that not always the same people try new versions.
fn hundredth(digest: &str, lane: &Lane) -> u64 {
    let hash = Sha256::digest(format!("{digest} {lane}"));
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)) % 100
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU8, NonZeroU32};

    use super::*;

    fn canary(percent: u8) -> Rollout {
        Rollout::Canary {
            percent: NonZeroU8::new(percent).expect("not zero"),
            turns: NonZeroU32::MIN,
        }
    }

    #[test]
    fn the_share_of_lanes_is_the_percentage_and_differs_between_versions() {
        let lanes: Vec<Lane> =
            (1..=10_000).map(|id| Lane::Channel(ChannelId::discord(id))).collect();
        let chosen = |percent, digest: &str| -> Vec<bool> {
            lanes.iter().map(|lane| includes(&canary(percent), digest, lane, None)).collect()
        };
        let count = |chosen: &[bool]| chosen.iter().filter(|chosen| **chosen).count();
        for percent in [1, 10, 50] {
            let of = count(&chosen(percent, "a"));
            let wanted = usize::from(percent) * 100;
            assert!(of.abs_diff(wanted) < 200, "{percent} %: {of} of 10,000");
        }
        assert_eq!(count(&chosen(100, "a")), lanes.len());
        assert_eq!(chosen(10, "a"), chosen(10, "a"), "a lane stays with its version");
        let both = chosen(10, "a").into_iter().zip(chosen(10, "b"));
        assert!(both.filter(|(a, b)| *a && *b).count() < 300);
        // A larger share keeps the lanes of a smaller one.
        let more = chosen(10, "a").into_iter().zip(chosen(20, "a"));
        assert!(more.into_iter().all(|(less, more)| more || !less));
    }

    #[test]
    fn chosen_channels_include_their_threads_only() {
        let [one, two, thread] = [1, 2, 3].map(ChannelId::discord);
        let rollout = Rollout::Channels(vec![one]);
        let serves = |lane, parent| includes(&rollout, "a", &lane, parent);
        assert!(serves(Lane::Channel(one), None) && serves(Lane::Channel(thread), Some(one)));
        assert!(!serves(Lane::Channel(two), None) && !serves(Lane::Channel(thread), Some(two)));
        assert!(!serves(Lane::Cron("1".to_owned()), None) && !serves(Lane::Console, None));
    }
}
