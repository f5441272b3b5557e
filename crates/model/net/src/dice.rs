//! Random numbers: each link and each user has its own generator.

use std::f64::consts::PI;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded generator: the same seed and the same calls give the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// True with the given probability. Draws no number for 0 and 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            false
        } else if probability >= 1.0 {
            true
        } else {
            self.uniform() < probability
        }
    }

    /// Uniform on [0, 1): the upper 53 bits, the precision of `f64`.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// From an exponential distribution of mean 1. `libm`, because the system's `ln` differs.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.uniform())
    }

    /// A sample of the Pareto distribution with this mean; the mean itself if `shape` is infinite.
    pub fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        // The smallest value that gives this mean: mean = smallest * shape / (shape - 1).
        let smallest = mean * (1.0 - 1.0 / shape);
        smallest * libm::pow(1.0 - self.uniform(), -1.0 / shape)
    }

    /// A sample of the lognormal distribution with this mean, whose logarithm has the standard
    /// deviation `sigma`.
    pub fn lognormal(&mut self, mean: f64, sigma: f64) -> f64 {
        // Box and Muller 1958.
        let radius = libm::sqrt(2.0 * self.exponential());
        let normal = radius * libm::cos(2.0 * PI * self.uniform());
        mean * libm::exp(sigma * normal - 0.5 * sigma * sigma)
    }

    /// A sample of the Weibull distribution with this mean and shape.
    pub fn weibull(&mut self, mean: f64, shape: f64) -> f64 {
        weibull_scale(mean, shape) * libm::pow(self.exponential(), 1.0 / shape)
    }
}

/// The scale of a Weibull distribution with this mean: P(X > x) = exp(-(x / scale)^shape).
pub fn weibull_scale(mean: f64, shape: f64) -> f64 {
    mean / libm::tgamma(1.0 + 1.0 / shape)
}
