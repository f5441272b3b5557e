//! Limits of this machine and of the kernel backend: errors, and warnings for ignored keys.

use anabranch_scenario::{Scenario, Tcp, refusal};

use crate::error::Error;
use crate::hosts::address::{MAX_PATHS, MAX_USERS};
use crate::hosts::setup;

/// The smallest packet size that every IPv4 host must accept, bytes (RFC 791).
const MIN_MTU: u32 = 576;

/// Checks that this process may create hosts, and that the kernel has Multipath TCP if the scenario
/// needs it.
///
/// # Errors
/// If not.
pub fn check_machine(scenario: &Scenario) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::new(
            "the kernel backend creates network namespaces and TUN devices: run it as root",
        ));
    }
    let multipath = scenario.flows.iter().any(|flow| flow.paths.len() > 1);
    if multipath && !setup::mptcp_available() {
        return Err(Error::new(
            "this kernel has no Multipath TCP: Linux 6.7 or later with CONFIG_MPTCP is required",
        ));
    }
    Ok(())
}

/// Checks that the kernel backend supports everything in the scenario.
///
/// # Errors
/// If not, with the key of the scenario.
pub fn check_scenario(scenario: &Scenario) -> Result<(), Error> {
    let mut flows = scenario.flows.iter();
    let users: u64 = flows.clone().map(|flow| u64::from(flow.count.get())).sum();
    let users = (users > MAX_USERS as u64)
        .then(|| ("flows".to_owned(), format!("more than {MAX_USERS} users")));
    let small = (scenario.tcp.packet_bytes.get() < MIN_MTU).then(|| {
        (
            "tcp.packet_bytes".to_owned(),
            format!("less than {MIN_MTU} bytes"),
        )
    });
    let many = flows.find(|flow| flow.paths.len() > MAX_PATHS);
    let many = many.map(|flow| {
        (
            format!("flows.{}.paths", flow.name),
            format!("more than {MAX_PATHS} paths"),
        )
    });
    let limit = users.or(small).or(many);
    let limit = limit.map(|(key, name)| refusal(&key, &name, "kernel", &["sim"]));
    scenario
        .refusal("kernel")
        .or(limit)
        .map_or(Ok(()), |text| Err(Error::new(text)))
}

/// A warning for each key that the kernel backend ignores and that does not have its default value.
pub fn ignored_keys(tcp: &Tcp) -> Vec<String> {
    let default = Tcp::default();
    let keys = [
        ("header_bytes", tcp.header_bytes != default.header_bytes),
        (
            "min_ssthresh_packets",
            tcp.min_ssthresh_packets != default.min_ssthresh_packets,
        ),
    ];
    let ignored = keys.into_iter().filter(|(_, differs)| *differs);
    ignored
        .map(|(key, _)| format!("tcp.{key} has no effect on kernel (docs/reference/lab.md)"))
        .collect()
}
