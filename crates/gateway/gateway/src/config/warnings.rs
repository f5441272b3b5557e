//! Warnings about values that are legal in a configuration and probably not meant.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anabranch_scenario::{Fault, Key, algorithm};
use ipnet::IpNet;

use super::check::{kernel_has, listener_of_operation};
use super::destination::{Destinations, Special};
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
    if let Ok(far) = near.far.parse::<SocketAddr>()
        && let Some(service) = near.services().iter().find(|it| it.listen == far)
    {
        let message = format!("this is the address of {} of near itself", service.key);
        warnings.push(Key::root("far").fault(message));
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
    warnings.extend(of_this_host(&Key::root("allow"), &far.allow));
    for (i, peer) in peers.iter().enumerate() {
        let key = Key::root("tunnel").key("peers").index(i).key("allow");
        warnings.extend(
            peer.allow
                .iter()
                .flat_map(|allow| of_this_host(&key, allow)),
        );
    }
    warnings.extend(public(&far.operation));
    warnings
}

/// Warnings about entries beside `*` that lead to services of far's host, or to its neighbours,
/// such as the metadata of a cloud: `*` alone reaches neither.
fn of_this_host(key: &Key, allow: &Destinations) -> Vec<Fault> {
    if !allow.0.iter().any(|it| it.to.is_any()) {
        return Vec::new();
    }
    let entries = allow.0.iter().enumerate();
    entries
        .filter_map(|(i, entry)| {
            let what = match entry.to.addresses()? {
                network if network.addr().is_loopback() => "services of far's own host",
                IpNet::V4(network) if network.addr().is_link_local() => LINK_LOCAL,
                IpNet::V6(network) if network.addr().is_unicast_link_local() => LINK_LOCAL,
                _ => return None,
            };
            let message = format!("whoever may use \"*\" also reaches {what} by {}", entry.to);
            Some(key.index(i).fault(message))
        })
        .collect()
}

const LINK_LOCAL: &str = "link-local addresses, such as the metadata of a cloud,";

/// Warnings about files that others than their owner can change, and a key of somebody else.
pub(super) fn files(file: &Path, key: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut writable = |path: &Path, what: &str| {
        let Ok(found) = path.metadata() else {
            return;
        };
        const STICKY: u32 = 0o1000;
        let is_shared = found.is_dir() && found.mode() & STICKY != 0;
        if found.mode() & 0o022 != 0 && !is_shared {
            let path = path.display();
            let mode = found.mode() & 0o777;
            warnings.push(format!(
                "{path}: others may write {what} (mode {mode:o}): chmod go-w {path}"
            ));
        }
    };
    let folder = |of: &Path| match of.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => Path::new(".").to_owned(),
    };
    writable(file, "this file");
    writable(&folder(file), "the folder of this configuration");
    if folder(key) != folder(file) {
        writable(&folder(key), "the folder of tunnel.key");
    }
    if let Ok(found) = key.metadata() {
        let own = rustix::process::geteuid().as_raw();
        let allowed = [own, 0, user_of_units().unwrap_or(own)];
        if !allowed.contains(&found.uid()) {
            warnings.push(format!(
                "{}: tunnel.key belongs to user {}, who can read and replace it: expected the user \
                 who runs the gateway",
                key.display(),
                found.uid()
            ));
        }
    }
    warnings
}

/// The user of the systemd units, if there is one.
pub(super) fn user_of_units() -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = users
        .lines()
        .filter_map(|line| line.strip_prefix("anabranch-gateway:"));
    lines.next()?.split(':').nth(1)?.parse().ok()
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
            && !Path::new("/sys/class/net").join(interface).exists()
        {
            let message = format!("this host has no interface {interface} now");
            warnings.push(key.key("interface").fault(message));
        }
        if let Some(interface) = &path.interface
            && KERNEL_NAMES.iter().any(|kind| is_numbered(interface, kind))
        {
            let message = format!(
                "the kernel numbers {interface} in the order in which it finds the interfaces: the \
                 name may be another link's after a restart; systemd.link(5) gives it a name by \
                 its MAC address"
            );
            warnings.push(key.key("interface").fault(message));
        }
        if let Some(address) = path.address.filter(|it| !it.is_loopback())
            && !Special::of_this_host().is_own(address)
        {
            let message = format!("this host has no address {address} now");
            warnings.push(key.key("address").fault(message));
        }
        if let (Some(address), Ok(far)) = (path.address, near.far.parse::<SocketAddr>())
            && address.is_ipv4() != far.is_ipv4()
        {
            let message = format!("{far} has no address of this family: the path stays off");
            warnings.push(key.key("address").fault(message));
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

/// Names that the kernel gives, each with a number.
const KERNEL_NAMES: [&str; 5] = ["eth", "wlan", "wwan", "usb", "ppp"];

fn is_numbered(interface: &str, kind: &str) -> bool {
    let number = interface.strip_prefix(kind);
    number.is_some_and(|number| number.parse::<u32>().is_ok())
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
