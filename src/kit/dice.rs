//! Choices that look random and are the same every time.

/// Gives the same numbers to everybody who asks in the same order.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`; 0 when there are none.
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        // Knuth's MMIX generator; its upper bits are the good ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize).checked_rem(sides).unwrap_or(0)
    }

    /// At most `most` different numbers below `sides`, in order.
    pub(super) fn pick(&mut self, sides: usize, most: usize) -> Vec<usize> {
        if sides <= most {
            return (0..sides).collect();
        }
        let mut picked = std::collections::BTreeSet::new();
        while picked.len() < most {
            picked.insert(self.roll(sides));
        }
        picked.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_are_different_in_range_and_repeatable() {
        let picked = Dice::new(7).pick(100, 10);
        assert_eq!(picked, Dice::new(7).pick(100, 10));
        assert!(
            picked.len() == 10
                && picked.windows(2).all(|pair| pair[0] < pair[1])
                && picked[9] < 100
        );
        assert_eq!(Dice::new(7).pick(3, 10), [0, 1, 2]);
        assert_eq!(Dice::new(7).roll(0), 0);
    }
}
