//! The cost of a data packet in one run.

use anabranch_scenario::{Record, Scenario, Virtual};
use anabranch_sim::Simulation;

use crate::common::thread_ns;

/// Processor time of one run per data packet that reached the end of its path, ns.
pub fn measure(scenario: &Scenario) -> (f64, Record) {
    let start = thread_ns();
    let record = Simulation::new(scenario, 1).finish();
    let elapsed_ns = thread_ns() - start;
    let sent: u64 = record.flows.sent_packets.iter().sum();
    let lost: u64 = record.flows.lost_packets.iter().sum();
    (elapsed_ns / (sent - lost) as f64, record)
}
