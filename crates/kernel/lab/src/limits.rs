//! Limits of this machine and of the kernel backend: errors, and warnings for ignored keys.

use anabranch_scenario::{Ecn, Scenario, Tcp, Workload};

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
    let unsupported = |key: String, what: &str| {
        let text = format!("{key}: {what} is not available on kernel; run it with --on sim");
        Err(Error::new(text))
    };
    if let Some(refusal) = scenario.tcp.scheduler.refusal("kernel") {
        return Err(Error::new(refusal));
    }
    if scenario.tcp.ecn != Ecn::Off {
        return unsupported("tcp.ecn".to_owned(), "ECN");
    }
    for link in &scenario.links {
        let queue = &link.config.queue;
        if queue.decides_on_departure() {
            return unsupported(format!("links.{}.queue", link.name), queue.name());
        }
    }
    let users: u64 = scenario
        .flows
        .iter()
        .map(|flow| u64::from(flow.count.get()))
        .sum();
    if users > MAX_USERS as u64 {
        return unsupported("flows".to_owned(), &format!("more than {MAX_USERS} users"));
    }
    if scenario.tcp.packet_bytes.get() < MIN_MTU {
        let what = format!("less than {MIN_MTU} bytes");
        return unsupported("tcp.packet_bytes".to_owned(), &what);
    }
    for flow in &scenario.flows {
        if matches!(flow.workload, Workload::Gateway { .. }) {
            return unsupported(format!("flows.{}.workload", flow.name), "a gateway");
        }
        if matches!(flow.workload, Workload::Messages(_)) {
            let key = format!("flows.{}.workload", flow.name);
            return unsupported(key, "a workload of messages");
        }
        if matches!(flow.workload, Workload::Media(_)) {
            let key = format!("flows.{}.workload", flow.name);
            return unsupported(key, "a media source");
        }
        if flow.packet_bytes != scenario.tcp.packet_bytes {
            let key = format!("flows.{}.packet_bytes", flow.name);
            return unsupported(key, "a packet size of its own");
        }
        if flow.paths.len() > MAX_PATHS {
            let what = format!("more than {MAX_PATHS} paths");
            return unsupported(format!("flows.{}.paths", flow.name), &what);
        }
        if flow.paths.iter().any(|path| !path.back.is_empty()) {
            let what = "a way back over links (back)";
            return unsupported(format!("flows.{}.paths", flow.name), what);
        }
    }
    Ok(())
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
