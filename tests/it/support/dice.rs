//! Random numbers that depend only on the seed.

/// A generator of random numbers (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// Creates the generator of a seed.
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Returns any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number from 0 to `limit - 1`.
    pub(crate) fn number_below(&mut self, limit: usize) -> usize {
        usize::try_from(self.any() % limit as u64).unwrap()
    }

    /// Returns a number in this range.
    pub(crate) fn number_between(&mut self, first: usize, last: usize) -> usize {
        first + self.number_below(last - first + 1)
    }

    /// Returns true in `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.number_below(100) < percent
    }

    /// Chooses one of the items.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.number_below(items.len())]
    }

    /// Chooses one of the items by their weights.
    pub(crate) fn pick_weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut number = self.number_below(items.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in items {
            if number < *weight {
                return *item;
            }
            number -= weight;
        }
        unreachable!("the number is below the sum of the weights")
    }
}

#[test]
fn seed_determines_the_numbers() {
    let numbers = |seed| {
        let mut dice = Dice::new(seed);
        (0..4).map(|_| dice.number_below(1000)).collect::<Vec<_>>()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
}
