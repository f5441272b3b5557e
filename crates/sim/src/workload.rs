//! What users send and when: the random parts of a workload.

use anabranch_net::{Dice, Time};
use anabranch_scenario::{Size, Workload};

use crate::time::from_seconds;

/// A user of a flow: who sends, from when to when, and what it has sent so far.
#[derive(Debug)]
pub(crate) struct User {
    /// Index of the flow, and number within it.
    pub flow: u32,
    pub number: u32,
    /// The row of its first path in the record.
    pub first_path: u32,
    pub start: Time,
    pub stop: Option<Time>,
    /// The connection of a workload that has only one.
    pub connection: Option<u32>,
    pub dice: Dice,
    /// Payload of connections that are over, files that are done, and when the last one was.
    pub received_bytes: u64,
    pub transfers_done: u64,
    pub done_at: Option<Time>,
}

impl User {
    /// Whether the user has stopped by `now`.
    pub fn has_stopped(&self, now: Time) -> bool {
        self.stop.is_some_and(|stop| stop <= now)
    }
}

/// How long until the next file arrives; `None` if the workload has no such thing.
pub(crate) fn next_gap(workload: &Workload, dice: &mut Dice) -> Option<Time> {
    match workload {
        Workload::Poisson { rate_per_s, .. } => {
            Some(from_seconds(exponential(dice) / rate_per_s.get()))
        }
        // Poisson processes together are one.
        Workload::Gateway {
            clients,
            rate_per_s,
            ..
        } => {
            let rate_per_s = f64::from(clients.get()) * rate_per_s.get();
            Some(from_seconds(exponential(dice) / rate_per_s))
        }
        _ => None,
    }
}

/// The size of the next file in bytes; `None` if the workload has no files.
pub(crate) fn next_size(workload: &Workload, dice: &mut Dice) -> Option<u64> {
    let size = match workload {
        Workload::File { bytes } => return Some(bytes.get()),
        Workload::Poisson { size, .. } | Workload::Gateway { size, .. } => size,
        Workload::Bulk | Workload::OnOff { .. } => return None,
    };
    let bytes = match size {
        Size::Exponential { mean_bytes } => mean_bytes.get() * exponential(dice),
        Size::Pareto { mean_bytes, shape } => pareto(dice, mean_bytes.get(), shape.get()),
    };
    Some((bytes.round() as u64).clamp(1, LARGEST_FILE))
}

/// A Pareto tail has no end, packet numbers have: 2^31 full packets of 1 byte at the least.
const LARGEST_FILE: u64 = 1 << 31;

/// From a Pareto distribution with this mean; always the mean where `shape` is infinite.
pub(crate) fn pareto(dice: &mut Dice, mean: f64, shape: f64) -> f64 {
    // The smallest value that gives this mean: mean = smallest * shape / (shape - 1).
    let smallest = mean * (1.0 - 1.0 / shape);
    smallest * libm::pow(1.0 - dice.uniform(), -1.0 / shape)
}

/// From an exponential distribution of mean 1. `libm`, because the system's `ln` differs.
pub(crate) fn exponential(dice: &mut Dice) -> f64 {
    -libm::log(1.0 - dice.uniform())
}

/// A seed of its own for each random element of a run (SplitMix64's finaliser).
pub(crate) fn element_seed(seed: u64, kind: u64, index: usize) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(kind << 32)
        .wrapping_add(index as u64 + 1)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(size: &str) -> Workload {
        toml::from_str::<std::collections::BTreeMap<String, Workload>>(&format!(
            "workload.poisson = {{ rate_per_s = 4, size.{size} }}"
        ))
        .map(|mut table| table.remove("workload").expect("the key is there"))
        .expect("a valid workload")
    }

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
        sum / count
    }

    #[test]
    fn arrivals_are_poisson_and_sizes_have_their_mean() {
        let workload = workload("exponential = { mean_bytes = 1e5 }");
        let mut dice = Dice::new(1);
        // 40 000 draws: the standard error of an exponential's mean is 0.5 %.
        let gap = mean(
            (0..40_000)
                .filter_map(|_| next_gap(&workload, &mut dice))
                .map(|t| t as f64),
        );
        assert!((gap / 0.25e12 - 1.0).abs() < 0.02, "{gap}");
        let size = mean(
            (0..40_000)
                .filter_map(|_| next_size(&workload, &mut dice))
                .map(|n| n as f64),
        );
        assert!((size / 1e5 - 1.0).abs() < 0.02, "{size}");
    }

    #[test]
    fn a_pareto_tail_falls_with_its_shape() {
        // P(size > x) = (smallest / x)^shape; smallest = 1e5 / 3, so P(> 1e5) = 3^-1.5 = 0.19245.
        let workload = workload("pareto = { mean_bytes = 1e5, shape = 1.5 }");
        let mut dice = Dice::new(2);
        let draws = 40_000;
        let above = (0..draws)
            .filter(|_| next_size(&workload, &mut dice) > Some(100_000))
            .count();
        let share = above as f64 / f64::from(draws);
        assert!((share - 0.19245).abs() < 0.008, "{share}");
    }

    #[test]
    fn every_element_has_a_seed_of_its_own() {
        let seeds: std::collections::BTreeSet<u64> = (0..3)
            .flat_map(|seed| (0..2).flat_map(move |kind| (0..50).map(move |i| (seed, kind, i))))
            .map(|(seed, kind, index)| element_seed(seed, kind, index))
            .collect();
        assert_eq!(seeds.len(), 300);
    }
}
