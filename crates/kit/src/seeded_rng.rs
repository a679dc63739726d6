//! A deterministic random number generator.

/// A generator that returns the same numbers for the same seed on every machine.
#[derive(Clone, Debug)]
pub(super) struct SeededRng(u64);

impl SeededRng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `limit`, or 0 if the limit is 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        // Knuth's MMIX generator. Only its upper bits are of good quality.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize).checked_rem(limit).unwrap_or(0)
    }

    /// Returns at most `count` different numbers below `limit`, in ascending order.
    pub(super) fn pick(&mut self, limit: usize, count: usize) -> Vec<usize> {
        if limit <= count {
            return (0..limit).collect();
        }
        let mut picked = std::collections::BTreeSet::new();
        while picked.len() < count {
            picked.insert(self.below(limit));
        }
        picked.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_are_different_in_range_and_repeatable() {
        let picked = SeededRng::new(7).pick(100, 10);
        assert_eq!(picked, SeededRng::new(7).pick(100, 10));
        assert!(
            picked.len() == 10
                && picked.windows(2).all(|pair| pair[0] < pair[1])
                && picked[9] < 100
        );
        assert_eq!(SeededRng::new(7).pick(3, 10), [0, 1, 2]);
        assert_eq!(SeededRng::new(7).below(0), 0);
    }
}
