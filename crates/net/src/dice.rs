//! The one source of randomness of a link, and of whatever else needs a generator of its own.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded generator: the same seed and the same questions give the same answers on every machine.
#[derive(Clone, Debug)]
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// True with the given probability. Draws a number only if the answer is open.
    pub fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            false
        } else if probability >= 1.0 {
            true
        } else {
            self.uniform() < probability
        }
    }

    /// Uniform on [0, 1): the upper 53 bits, all that an `f64` can hold.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// From an exponential distribution of mean 1. `libm`, because the system's `ln` differs.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.uniform())
    }

    /// From a Pareto distribution with this mean; always the mean where `shape` is infinite.
    pub fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        // The smallest value that gives this mean: mean = smallest * shape / (shape - 1).
        let smallest = mean * (1.0 - 1.0 / shape);
        smallest * libm::pow(1.0 - self.uniform(), -1.0 / shape)
    }
}
