//! Warnings about values that are legal in a configuration and probably not meant.

use std::net::SocketAddr;

use anabranch_scenario::{Fault, Key, algorithm};

use super::check::{kernel_has, listener_of_operation};
use super::{Carrier, Far, Limits, Near, Operation, Role, Tunnel};

/// Warnings about a configuration of `near` without faults.
pub(super) fn near(near: &Near) -> Vec<Fault> {
    let used = near.paths.iter().filter(|path| path.role != Role::Never);
    let mut warnings = tunnel(&near.tunnel, Some(used.count()));
    warnings.extend(paths(near));
    let services = near.services();
    if services.is_empty() {
        let message = "it accepts no connections: expected socks, forwards, redirect or dns";
        warnings.push(Key::root("far").fault(message));
    }
    for service in services {
        let mut clients = service.clients.iter();
        if let Some(all) = clients.find(|network| network.prefix_len() == 0) {
            let message = format!("{all} lets everyone who reaches this address use the gateway");
            warnings.push(service.key.key("clients").fault(message));
        }
    }
    for (i, rule) in near.rules.iter().enumerate() {
        if rule.to.is_any() && rule.to.to_string() == "*" && i + 1 < near.rules.len() {
            let message = "the rules after this one never match";
            warnings.push(Key::root("rules").index(i).fault(message));
        }
    }
    if near.limits.tunnels_per_client != Limits::default().tunnels_per_client {
        let message = "without effect on near: far counts the tunnels of a key";
        warnings.push(Key::root("limits").key("tunnels_per_client").fault(message));
    }
    warnings.extend(public(&near.operation));
    warnings
}

/// Warnings about a configuration of `far` without faults.
pub(super) fn far(far: &Far) -> Vec<Fault> {
    let mut warnings = tunnel(&far.tunnel, None);
    let peers = &far.tunnel.peers;
    if far.allow.0.is_empty() && peers.iter().any(|peer| peer.allow.is_none()) {
        let message = "nothing is allowed: every connection will be refused; \"*\" allows every \
                       public address";
        warnings.push(Key::root("allow").fault(message));
    }
    warnings.extend(public(&far.operation));
    warnings
}

/// Warnings about a tunnel that uses this number of `paths`, where it is known.
fn tunnel(tunnel: &Tunnel, paths: Option<usize>) -> Vec<Fault> {
    let key = Key::root("tunnel").key("algorithm");
    let Ok(rule) = algorithm(&tunnel.algorithm) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let couples = !["reno", "cubic", "vegas"].contains(&rule.name());
    if paths == Some(1) && couples {
        let name = rule.name();
        let message = format!("{name} couples paths, and with one path there is nothing to couple");
        warnings.push(key.fault(message));
    }
    let in_linux = rule.info().linux_name();
    if tunnel.carrier == Carrier::Mptcp && !kernel_has(&in_linux) {
        let message = format!(
            "this kernel has no congestion control {in_linux} now: anabranch-kernel load {in_linux}"
        );
        warnings.push(key.fault(message));
    }
    if rule.info().delay_based && tunnel.carrier == Carrier::Quic && paths != Some(1) {
        let message = format!(
            "{} follows the delay, and over QUIC the acknowledgements of all paths return on one: \
             a loss-based rule is safer here (docs/reference/gateway.md)",
            rule.name()
        );
        warnings.push(key.fault(message));
    }
    warnings
}

fn paths(near: &Near) -> Vec<Fault> {
    let all = Key::root("paths");
    let mut warnings = Vec::new();
    let used = near.paths.iter().filter(|path| path.role != Role::Never);
    if used.clone().all(|path| path.role == Role::Backup) {
        warnings.push(all.fault("every path is a backup: the first that works is used alone"));
    }
    if used.clone().count() > 1 && used.clone().all(|path| path.weight < 1.0) {
        let message = "no path has weight 1: weights are relative to the paths of weight 1";
        warnings.push(all.fault(message));
    }
    for (i, path) in near.paths.iter().enumerate() {
        let key = all.index(i);
        if let Some(interface) = &path.interface
            && !std::path::Path::new("/sys/class/net")
                .join(interface)
                .exists()
        {
            let message = format!("this host has no interface {interface} now");
            warnings.push(key.key("interface").fault(message));
        }
        if path.address.is_some_and(|address| address.is_loopback()) && !is_local(&near.far) {
            let message = "a loopback address reaches nothing but this host";
            warnings.push(key.key("address").fault(message));
        }
        let limits = [
            ("weight", path.weight < 1.0),
            ("rate_mbps", path.rate_mbps.is_some()),
            ("cap_bytes", path.cap_bytes.is_some()),
        ];
        for (name, _) in limits.into_iter().filter(|(_, limited)| *limited) {
            if near.tunnel.carrier == Carrier::Mptcp {
                let message =
                    "ignored for streams with the carrier mptcp: the kernel schedules its paths";
                warnings.push(key.key(name).fault(message));
            }
        }
    }
    warnings
}

/// Whether `far` is this host.
fn is_local(far: &str) -> bool {
    far.starts_with("localhost:")
        || far
            .parse::<SocketAddr>()
            .is_ok_and(|far| far.ip().is_loopback())
}

/// Warning about a status that others can reach, since it has no password.
fn public(operation: &Operation) -> Option<Fault> {
    let (key, address) = listener_of_operation(operation)?;
    let message =
        format!("everyone who reaches {address} can read it: expected a loopback address");
    (!address.ip().is_loopback()).then(|| key.fault(message))
}
