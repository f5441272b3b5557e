//! The users of a scenario: when they start and stop, and the random arrivals and sizes of what
//! they send. Every backend uses the same.

use crate::model::flows::Workload;
use crate::scenario::Scenario;
use crate::seed::{element_seed, kind};
use anabranch_net::time::from_seconds;
use anabranch_net::{Dice, Time};

/// A user of a flow: its index, its times and its random numbers.
#[derive(Clone, Debug)]
pub struct UserSlot {
    /// Index of the flow.
    pub flow: u32,
    /// Number within the flow.
    pub number: u32,
    /// The row of its first path in the record.
    pub first_path: u32,
    /// When it begins; a Poisson process begins with its first file.
    pub start: Time,
    /// When it stops; `None`: at the end of the run.
    pub stop: Option<Time>,
    /// Its random numbers.
    pub dice: Dice,
}

impl UserSlot {
    /// Whether the user has stopped by `now`.
    pub fn has_stopped(&self, now: Time) -> bool {
        self.stop.is_some_and(|stop| stop <= now)
    }
}

/// Every user of every flow, in the order of the rows of a result.
pub fn user_slots(scenario: &Scenario, seed: u64) -> Vec<UserSlot> {
    let mut slots = Vec::new();
    let mut first_path = 0;
    for (index, flow) in scenario.flows.iter().enumerate() {
        for number in 0..flow.count.get() {
            let mut dice = Dice::new(element_seed(seed, kind::USERS, slots.len()));
            let spread_s = flow.start_spread_s.get() * dice.uniform();
            let start = from_seconds(flow.start_s.get() + spread_s);
            // A Poisson process begins with a gap, not with a file.
            let first = next_gap(&flow.workload, &mut dice).unwrap_or(0);
            slots.push(UserSlot {
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
    slots
}

/// The time until the next file arrives; `None` if the workload has no arrivals.
pub fn next_gap(workload: &Workload, dice: &mut Dice) -> Option<Time> {
    match workload {
        Workload::Poisson { rate_per_s, .. } => {
            Some(from_seconds(dice.exponential() / rate_per_s.get()))
        }
        // The superposition of Poisson processes is a Poisson process.
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
    Some(size.draw(dice))
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
}
