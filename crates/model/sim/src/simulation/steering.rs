//! Runs that an agent steers, such as one that learns: it looks at the paths, sets windows from
//! outside, and lets time pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_control::{External, Path};
use anabranch_scenario::Scenario;
use anabranch_scenario::users::{Outside, controllers};

use super::Simulation;

/// The meaning of an agent's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// Congestion windows, packets. A loss leaves them to the agent.
    Windows,
    /// The increase of a window per round trip, packets. A loss halves it, as NewReno does.
    Weights,
}

/// A rule whose values an agent sets while the run stands still, one value per path.
#[derive(Debug)]
pub struct Steering {
    steered: Steered,
    values: Vec<AtomicU64>,
}

impl Steering {
    /// A rule with these values at first.
    pub fn new(steered: Steered, values: &[f64]) -> Steering {
        Steering {
            steered,
            values: values
                .iter()
                .map(|value| AtomicU64::new(value.to_bits()))
                .collect(),
        }
    }

    /// Sets the values. A window changes with the next acknowledgement, or after the repair of a
    /// loss.
    pub fn set(&self, values: &[f64]) {
        for (place, value) in self.values.iter().zip(values) {
            place.store(value.to_bits(), Ordering::Relaxed);
        }
    }

    fn value(&self, r: usize) -> f64 {
        f64::from_bits(self.values[r].load(Ordering::Relaxed))
    }
}

impl External for Steering {
    fn increase(&self, r: usize, paths: &[Path<f64>]) -> f64 {
        match self.steered {
            Steered::Windows => self.value(r) - paths[r].window,
            Steered::Weights => self.value(r) / paths[r].window,
        }
    }

    fn decrease(&self, r: usize, paths: &[Path<f64>]) -> f64 {
        match self.steered {
            Steered::Windows => 0.0,
            Steered::Weights => paths[r].window / 2.0,
        }
    }

    fn knows_paths_by_place(&self) -> bool {
        true
    }
}

/// The state of a user's path at one moment. Counts are since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathState {
    /// Index of the flow.
    pub flow: u32,
    /// Congestion window, packets.
    pub window: f64,
    /// Smoothed round-trip time, s; NaN before the first.
    pub rtt_s: f64,
    /// Data packets sent, retransmissions included.
    pub sent_packets: u64,
    /// Data packets that a link dropped.
    pub lost_packets: u64,
    /// Payload that first arrived over this path, bytes.
    pub delivered_bytes: u64,
}

impl Simulation {
    /// A run in which each of these flows, by index, runs a rule of its own instead of its
    /// algorithm.
    pub fn with_rules(
        scenario: &Scenario,
        seed: u64,
        rules: impl IntoIterator<Item = (usize, Arc<dyn External>)>,
    ) -> Simulation {
        let mut chosen = controllers(scenario, None);
        for (flow, rule) in rules {
            let rule = Outside::Rule(rule);
            chosen[flow] = scenario.flows[flow].custom_controller(&rule, &scenario.tcp);
        }
        Simulation::with_controllers(scenario, seed, chosen)
    }

    /// The paths of all users, in the order of the rows of a record.
    pub fn path_states(&mut self) -> Vec<PathState> {
        let totals = self.snapshot().paths;
        let gauges = self.path_gauges();
        let flows = self.users.iter().flat_map(|user| {
            let paths = self.scenario.flows[user.slot.flow as usize].paths.len();
            std::iter::repeat_n(user.slot.flow, paths)
        });
        let states = flows.zip(gauges).zip(totals);
        states
            .map(|((flow, gauge), totals)| PathState {
                flow,
                window: gauge.window.unwrap_or(f64::NAN),
                rtt_s: gauge.rtt_sum_s / f64::from(gauge.measured),
                sent_packets: totals.sent_packets,
                lost_packets: totals.lost_packets(),
                delivered_bytes: totals.delivered_bytes,
            })
            .collect()
    }
}
