//! The kernel's congestion control that each flow runs.

use anabranch_scenario::Scenario;
use anabranch_sockets::algorithms;

use crate::error::{Context, Error};

/// The kernel's name of each flow's algorithm. Flows without an algorithm of their own run `chosen`
/// if it is given: any algorithm of the kernel, also one that only the kernel has (`bbr`).
///
/// # Errors
/// If an algorithm has parameters, or is not registered in the kernel.
pub fn of_flows(scenario: &Scenario, chosen: Option<&str>) -> Result<Vec<String>, Error> {
    let registered = algorithms::available().context("the kernel's algorithms")?;
    let flows = scenario.flows.iter().enumerate();
    flows
        .map(|(index, flow)| {
            let wanted = match chosen {
                Some(name) if !scenario.has_own_algorithm(index) => name.to_owned(),
                _ => flow.algorithm.to_string(),
            };
            algorithms::kernel_name(&wanted, &registered)
                .map_err(|error| Error::new(error.to_string()))
        })
        .collect()
}
