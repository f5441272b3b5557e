//! Sizes of the files that users send.

use std::f64::consts::LN_2;

use anabranch_net::Dice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::number::{AboveOne, MeanBytes};

/// No file is larger, bytes: a Pareto tail has no end, but whole numbers of a result are signed
/// 64-bit.
const LARGEST_FILE: u64 = i64::MAX as u64;

/// The distribution of file sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Size {
    /// Heavy-tailed: P(size > x) is proportional to x^-shape.
    Pareto {
        /// Mean, bytes.
        mean_bytes: MeanBytes,
        /// Tail exponent; from 1 to 2 the variance is infinite.
        shape: AboveOne,
    },
    /// Light-tailed.
    Exponential {
        /// Mean, bytes.
        mean_bytes: MeanBytes,
    },
}

impl Size {
    /// The mean as it is written, bytes.
    pub(crate) fn mean_bytes(&self) -> f64 {
        let (Size::Pareto { mean_bytes, .. } | Size::Exponential { mean_bytes }) = self;
        mean_bytes.get()
    }

    /// The size of one file, bytes; at least 1.
    pub(crate) fn draw(&self, dice: &mut Dice) -> u64 {
        let bytes = match self {
            Size::Exponential { mean_bytes } => mean_bytes.get() * dice.exponential(),
            Size::Pareto { mean_bytes, shape } => dice.pareto(mean_bytes.get(), shape.get()),
        };
        (bytes.round() as u64).clamp(1, LARGEST_FILE)
    }

    /// The largest size that [`draw`](Self::draw) can give, bytes.
    pub(crate) fn largest_bytes(&self) -> f64 {
        // `Dice::uniform` has 53 bits, so that P(size > largest) = 2^-53.
        let largest = match self {
            Size::Exponential { mean_bytes } => 53.0 * LN_2 * mean_bytes.get(),
            Size::Pareto { shape, .. } => self.smallest_bytes() * libm::exp2(53.0 / shape.get()),
        };
        largest.min(LARGEST_FILE as f64)
    }

    /// The mean of what [`draw`](Self::draw) gives, bytes, to about half a percent: less than the
    /// written mean where files beyond the largest would carry a share of the load.
    pub(crate) fn effective_mean_bytes(&self) -> f64 {
        let Size::Pareto { mean_bytes, shape } = self else {
            return self.mean_bytes();
        };
        // E[min(X, L)] = mean (1 - (smallest / L)^(shape - 1) / shape).
        let (shape, below) = (shape.get(), self.smallest_bytes() / self.largest_bytes());
        mean_bytes.get() * (1.0 - libm::pow(below, shape - 1.0) / shape)
    }

    /// The smallest size, bytes, before it is rounded.
    fn smallest_bytes(&self) -> f64 {
        match self {
            Size::Exponential { .. } => 0.0,
            Size::Pareto { mean_bytes, shape } => mean_bytes.get() * (1.0 - 1.0 / shape.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(toml: &str) -> Size {
        let mut table: std::collections::BTreeMap<String, Size> =
            toml::from_str(&format!("size.{toml}")).expect("valid TOML");
        table.remove("size").expect("the key is there")
    }

    /// The mean of 40 000 draws: an exponential's has a standard error of 0.5 %.
    #[test]
    fn sizes_beyond_32_bits_have_their_mean() {
        let size = size("exponential = { mean_bytes = 1e11 }");
        let mut dice = Dice::new(1);
        let sum: f64 = (0..40_000).map(|_| size.draw(&mut dice) as f64).sum();
        assert!((sum / 40_000.0 / 1e11 - 1.0).abs() < 0.02, "{sum}");
    }

    /// smallest = 90 909 bytes, so P(size > 2^31) = (90 909 / 2^31)^1.1 = 1.55e-5: 31 of 2e6 draws,
    /// 5.6 the standard deviation. These few carry a third of the load.
    #[test]
    fn a_pareto_tail_goes_on_beyond_31_bits() {
        let size = size("pareto = { mean_bytes = 1e6, shape = 1.1 }");
        let mut dice = Dice::new(1);
        let draws = (0..2_000_000).map(|_| size.draw(&mut dice));
        let large = draws.filter(|&bytes| bytes > 1 << 31).count();
        assert!((15..=47).contains(&large), "{large}");
    }

    /// The mean over the grid of 2^53 values that `Dice::uniform` can take: summed one by one near
    /// the tail, by the integral beyond.
    fn mean_over_grid(mean: f64, shape: f64) -> f64 {
        let step = (0.5_f64).powi(53);
        let smallest = mean * (1.0 - 1.0 / shape);
        let exact = 100_000;
        let value = |k: f64| (smallest * (k * step).powf(-1.0 / shape)).min(LARGEST_FILE as f64);
        let tail: f64 = (1..=exact).map(|k| value(f64::from(k)) * step).sum();
        let (from, b) = ((f64::from(exact) + 0.5) * step, 1.0 - 1.0 / shape);
        tail + smallest * (1.0 - from.powf(b)) / b
    }

    #[test]
    fn the_effective_mean_is_that_of_the_draws() {
        for (mean, shape) in [(1e6, 1.1), (3e4, 1.2), (1e6, 1.05), (1e10, 1.3), (1e5, 1.5)] {
            let size = size(&format!(
                "pareto = {{ mean_bytes = {mean}, shape = {shape} }}"
            ));
            let (ours, grid) = (size.effective_mean_bytes(), mean_over_grid(mean, shape));
            assert!((ours / grid - 1.0).abs() < 0.005, "{shape}: {ours} {grid}");
        }
    }

    /// 31 bits cut off 33 % of the first and 6 % of the second.
    #[test]
    fn a_heavy_tail_keeps_its_load() {
        let share = |toml: &str, mean: f64| size(toml).effective_mean_bytes() / mean;
        assert!(share("pareto = { mean_bytes = 1e6, shape = 1.1 }", 1e6) > 0.96);
        assert!(share("pareto = { mean_bytes = 3e4, shape = 1.2 }", 3e4) > 0.998);
    }
}
