//! Runs that an agent steers: it looks at the paths, sets values, and lets time pass.

use std::sync::Arc;

use anabranch_control::External;
use anabranch_scenario::Scenario;
use anabranch_scenario::users::controllers;

use super::Simulation;

/// What is known of a path of a user at one moment; counts are those since the start of the run.
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
