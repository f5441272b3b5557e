//! Who sends, from when to when, and the random parts of what they send: the same for every backend.

use crate::flows::{Size, Workload};
use crate::scenario::Scenario;
use crate::time::from_seconds;
use anabranch_net::{Dice, Time};

/// Kinds of random elements, each with seeds of its own.
pub mod kind {
    /// Links.
    pub const LINKS: u64 = 0;
    /// Users.
    pub const USERS: u64 = 1;
    /// The waits of gateways that adjust their weight.
    pub const ADJUSTERS: u64 = 2;
}

/// A user's place in a run.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Index of the flow.
    pub flow: u32,
    /// Number within the flow.
    pub number: u32,
    /// The row of its first path in the record.
    pub first_path: u32,
    /// When it begins; a Poisson process with its first file.
    pub start: Time,
    /// When it stops; `None`: at the end of the run.
    pub stop: Option<Time>,
    /// The source of its randomness.
    pub dice: Dice,
}

impl Seat {
    /// Whether the user has stopped by `now`.
    pub fn has_stopped(&self, now: Time) -> bool {
        self.stop.is_some_and(|stop| stop <= now)
    }
}

/// Every user of every flow, in the order of the rows of a result.
pub fn seats(scenario: &Scenario, seed: u64) -> Vec<Seat> {
    let mut seats = Vec::new();
    let mut first_path = 0;
    for (index, flow) in scenario.flows.iter().enumerate() {
        for number in 0..flow.count.get() {
            let mut dice = Dice::new(element_seed(seed, kind::USERS, seats.len()));
            let spread_s = flow.start_spread_s.get() * dice.uniform();
            let start = from_seconds(flow.start_s.get() + spread_s);
            // A Poisson process has no file at its very beginning.
            let first = next_gap(&flow.workload, &mut dice).unwrap_or(0);
            seats.push(Seat {
                flow: index as u32,
                number,
                first_path,
                start: start + first,
                stop: flow.stop_s.map(|stop| from_seconds(stop.get())),
                dice,
            });
            first_path += flow.paths.len() as u32;
        }
    }
    seats
}

/// How long until the next file arrives; `None` if the workload has no such thing.
pub fn next_gap(workload: &Workload, dice: &mut Dice) -> Option<Time> {
    match workload {
        Workload::Poisson { rate_per_s, .. } => {
            Some(from_seconds(dice.exponential() / rate_per_s.get()))
        }
        // Poisson processes together are one.
        Workload::Gateway {
            clients,
            rate_per_s,
            ..
        } => {
            let rate_per_s = f64::from(clients.get()) * rate_per_s.get();
            Some(from_seconds(dice.exponential() / rate_per_s))
        }
        _ => None,
    }
}

/// The size of the next file in bytes; `None` if the workload has no files.
pub fn next_size(workload: &Workload, dice: &mut Dice) -> Option<u64> {
    let size = match workload {
        Workload::File { bytes } => return Some(bytes.get()),
        Workload::Poisson { size, .. } | Workload::Gateway { size, .. } => size,
        Workload::Bulk | Workload::OnOff { .. } => return None,
    };
    let bytes = match size {
        Size::Exponential { mean_bytes } => mean_bytes.get() * dice.exponential(),
        Size::Pareto { mean_bytes, shape } => dice.pareto(mean_bytes.get(), shape.get()),
    };
    Some((bytes.round() as u64).clamp(1, LARGEST_FILE))
}

/// A Pareto tail has no end, packet numbers have: 2^31 full packets of 1 byte at the least.
const LARGEST_FILE: u64 = 1 << 31;

/// A seed of its own for each random element of a run (SplitMix64's finaliser).
pub fn element_seed(seed: u64, kind: u64, index: usize) -> u64 {
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
