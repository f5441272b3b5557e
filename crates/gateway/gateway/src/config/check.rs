//! Requirements of a configuration beyond the types of its values.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_scenario::{Fault, Key, MaxKappa, algorithm, expected_one_of};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::destination::Action;
use super::services::Service;
use super::{Carrier, Far, Limits, Near, Operation, Path, Role, Tunnel};
use crate::carrier::{BBR, LONGEST_NAME, is_name};
use crate::keys::{KeyPair, PublicKey};
use crate::wire::{Destination, Head};

/// Largest time in a configuration, s: a week.
const LONGEST_S: f64 = 7.0 * 86400.0;

/// Longest name of an interface (Linux' IFNAMSIZ less its end).
const LONGEST_INTERFACE: usize = 15;

/// Faults of a configuration of `near`.
pub(super) fn near(near: &Near) -> Vec<Fault> {
    let mut faults = tunnel(&near.tunnel);
    faults.extend(allow_of_peers(&near.tunnel));
    let far = host_and_port(&near.far).err();
    faults.extend(far.map(|message| Key::root("far").fault(message)));
    faults.extend(paths(&near.paths));
    let services = near.services();
    let listen = |it: &Service| (it.key.key("listen"), it.listen);
    let tcp = services.iter().filter(|it| it.kind.has_tcp()).map(listen);
    let tcp: Vec<_> = tcp.chain(listener_of_operation(&near.operation)).collect();
    faults.extend(listeners(&tcp));
    let udp = services.iter().filter(|it| it.kind.has_udp()).map(listen);
    let of_udp = listeners(&udp.collect::<Vec<_>>());
    faults.extend(
        of_udp
            .into_iter()
            .filter(|it| it.key != Key::root("dns").key("listen")),
    );
    faults.extend(services.iter().filter_map(Service::fault));
    faults.extend(rules(near));
    faults.extend(limits(&near.limits));
    faults.extend(fault(&near.limits, near.tunnel.carrier));
    faults.extend(operation(&near.operation));
    faults
}

/// Faults of a configuration of `far`.
pub(super) fn far(far: &Far) -> Vec<Fault> {
    let mut faults = tunnel(&far.tunnel);
    let key = Key::root("resolver");
    faults.extend(far.resolver.and_then(|address| port(&key, address)));
    if far.listen.ip().is_multicast() {
        faults.push(Key::root("listen").fault("expected an address of this host"));
    }
    let mut all = vec![(Key::root("listen"), far.listen)];
    all.extend(listener_of_operation(&far.operation));
    faults.extend(listeners(&all));
    faults.extend(limits(&far.limits));
    faults.extend(fault(&far.limits, far.tunnel.carrier));
    faults.extend(operation(&far.operation));
    faults
}

/// Keys of a tunnel.
pub(super) fn keys(tunnel: &Tunnel) -> Result<(KeyPair, Vec<PublicKey>), Vec<Fault>> {
    let key = Key::root("tunnel");
    let mut faults = Vec::new();
    let own = KeyPair::read(&tunnel.key).map_err(|error| {
        let missing = if tunnel.key.exists() {
            String::new()
        } else {
            format!("; anabranch-gateway keygen {}", tunnel.key.display())
        };
        faults.push(key.key("key").fault(format!("{error:#}{missing}")));
    });
    let key = key.key("peers");
    let mut peers: Vec<PublicKey> = Vec::new();
    for (i, peer) in tunnel.peers.iter().enumerate() {
        if peers.contains(&peer.key) {
            faults.push(key.index(i).fault("this key is listed twice"));
        }
        peers.push(peer.key.clone());
        if let Some(name) = &peer.name {
            faults.extend(self::name(&key.index(i).key("name"), name));
        }
    }
    if tunnel.peers.is_empty() {
        faults.push(key.fault("expected the public key of the other gateway; keygen prints it"));
    }
    if let Ok(own) = &own
        && let Some(i) = peers.iter().position(|peer| peer == own.public())
    {
        let message = "this is the public key of tunnel.key; expected the other gateway's";
        faults.push(key.index(i).fault(message));
    }
    match own {
        Ok(own) if faults.is_empty() => Ok((own, peers)),
        _ => Err(faults),
    }
}

/// Only `far` has an allow-list.
fn allow_of_peers(tunnel: &Tunnel) -> Option<Fault> {
    let i = tunnel.peers.iter().position(|peer| peer.allow.is_some())?;
    let key = Key::root("tunnel").key("peers").index(i).key("allow");
    Some(key.fault("near connects to far alone; expected in the configuration of far"))
}

fn rules(near: &Near) -> Vec<Fault> {
    if near.rules.len() > Head::MAX_NETWORKS {
        let message = format!("expected at most {} rules", Head::MAX_NETWORKS);
        return vec![Key::root("rules").fault(message)];
    }
    let names: Vec<&str> = near.paths.iter().map(|path| path.name.as_str()).collect();
    let rules = near.rules.iter().enumerate();
    rules
        .filter_map(|(i, rule)| match &rule.via {
            Action::Path(name) if !names.contains(&name.as_str()) => {
                let key = Key::root("rules").index(i).key("via");
                let expected = expected_one_of(name, &names);
                Some(key.fault(format!("unknown path {name:?}, {expected}")))
            }
            _ => None,
        })
        .collect()
}

fn tunnel(tunnel: &Tunnel) -> Vec<Fault> {
    let key = Key::root("tunnel");
    let rule = match algorithm(&tunnel.algorithm) {
        Ok(rule) => Some(rule),
        // The name is the library's or the kernel's.
        Err(_) if has_it(tunnel) => None,
        Err(message) => return vec![key.key("algorithm").fault(message)],
    };
    if rule.as_ref().is_some_and(|rule| rule.beta_ecn().is_some()) {
        let message = "beta_ecn has no effect: tunnels have no ECN: omit it";
        return vec![key.key("algorithm").fault(message)];
    }
    let Some(itcp) = &tunnel.itcp else {
        return Vec::new();
    };
    let key = key.key("itcp");
    // A gateway samples in real time.
    let period = number(&key, "period_s", itcp.period_s.get(), 0.001, LONGEST_S);
    let mut faults = Vec::from_iter(period);
    if itcp.max_kappa == MaxKappa::Active {
        let message = "expected a number: only a simulated gateway counts its files";
        faults.push(key.key("max_kappa").fault(message));
    }
    if itcp.back_pressure {
        let message = "has no effect: limits.tunnel_buffer_bytes bounds the buffer: omit it";
        faults.push(key.key("back_pressure").fault(message));
    }
    if rule.is_none_or(|rule| rule.info().weight.is_none()) {
        let message = format!(
            "I-TCP adjusts the weight of a rule, and {} has none: tunnel.algorithm = \"vegas\"",
            tunnel.algorithm
        );
        faults.push(key.fault(message));
    }
    faults
}

/// Whether the carrier has a congestion control of this name that is no rule of Anabranch.
fn has_it(tunnel: &Tunnel) -> bool {
    match tunnel.carrier {
        Carrier::Quic => tunnel.algorithm == BBR,
        Carrier::Mptcp => kernel_has(&tunnel.algorithm),
    }
}

fn paths(paths: &[Path]) -> Vec<Fault> {
    let all = Key::root("paths");
    let mut faults = Vec::new();
    if paths.iter().all(|path| path.role == Role::Never) {
        let message = match paths {
            [] => "expected at least one path",
            _ => "every path has the role never: expected one that is available or backup",
        };
        faults.push(all.fault(message));
    }
    for (i, path) in paths.iter().enumerate() {
        let key = all.index(i);
        faults.extend(one_path(&key, path));
        let same_name = paths[..i].iter().any(|other| other.name == path.name);
        if same_name {
            let message = format!("{:?} is the name of an earlier path", path.name);
            faults.push(key.key("name").fault(message));
        }
        let place = |path: &Path| (path.address, path.interface.clone());
        let same_place = paths[..i].iter().find(|other| place(other) == place(path));
        if let Some(other) = same_place.filter(|_| place(path) != (None, None)) {
            let message = format!("path {:?} has the same address and interface", other.name);
            faults.push(key.fault(message));
        }
    }
    faults
}

fn name(key: &Key, name: &str) -> Option<Fault> {
    let message = format!(
        "expected 1 to {LONGEST_NAME} letters, digits, dots, hyphens or underscores, got {name:?}"
    );
    (!is_name(name)).then(|| key.fault(message))
}

fn one_path(key: &Key, path: &Path) -> Vec<Fault> {
    let mut faults = Vec::from_iter(name(&key.key("name"), &path.name));
    match (&path.address, &path.interface) {
        (None, None) => {
            faults.push(key.fault("expected address, interface or both: where its packets leave"));
        }
        (Some(address), _) if address.is_unspecified() || address.is_multicast() => {
            let message = format!("expected an address of this host, got {address}");
            faults.push(key.key("address").fault(message));
        }
        _ => {}
    }
    if let Some(interface) = &path.interface
        && (interface.is_empty()
            || interface.len() > LONGEST_INTERFACE
            || interface.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()))
    {
        let message = format!("expected the name of an interface, such as eth0, got {interface:?}");
        faults.push(key.key("interface").fault(message));
    }
    if !(path.weight > 0.0 && path.weight <= 1.0) {
        let message = format!("expected a number above 0, at most 1, got {}", path.weight);
        faults.push(key.key("weight").fault(message));
    }
    if let Some(rate) = path.rate_mbps {
        faults.extend(number(key, "rate_mbps", rate, 0.01, 1e6));
    }
    if path.cap_bytes == Some(0) {
        let message = "expected at least 1; role = \"never\" turns a path off";
        faults.push(key.key("cap_bytes").fault(message));
    }
    faults
}

fn limits(limits: &Limits) -> Vec<Fault> {
    let key = Key::root("limits");
    let n = |number: usize| number as f64;
    let [per_client, tunnels] = [limits.connections_per_client(), limits.tunnels_per_client];
    let [each, tunnel] = [limits.buffer_bytes, limits.tunnel_buffer_bytes];
    let ranges = [
        ("connections", n(limits.connections()), 1.0, 1e6),
        ("connections_per_client", n(per_client), 1.0, 1e6),
        ("tunnels_per_client", n(tunnels), 1.0, 1e4),
        ("buffer_bytes", n(each), 4096.0, 64e6),
        ("tunnel_buffer_bytes", n(tunnel), 65536.0, 16e9),
        ("client_mbps", limits.client_mbps.unwrap_or(1.0), 0.01, 1e6),
        ("handshake_s", limits.handshake_s, 0.1, 3600.0),
        ("idle_s", limits.idle_s, 1.0, LONGEST_S),
        ("half_closed_s", limits.half_closed_s, 1.0, LONGEST_S),
    ];
    let ranges = ranges.into_iter();
    ranges
        .filter_map(|(name, value, min, max)| number(&key, name, value, min, max))
        .collect()
}

fn operation(operation: &Operation) -> Option<Fault> {
    let key = Key::root("operation");
    number(&key, "drain_s", operation.drain_s, 0.0, LONGEST_S)
}

fn number(key: &Key, name: &str, value: f64, min: f64, max: f64) -> Option<Fault> {
    let message = format!("expected a number from {min} to {max}, got {value}");
    (!(min..=max).contains(&value)).then(|| key.key(name).fault(message))
}

/// Address of the status, with its key.
pub(super) fn listener_of_operation(operation: &Operation) -> Option<(Key, SocketAddr)> {
    let key = Key::root("operation").key("status");
    operation.status.map(|at| (key, at))
}

fn listeners(all: &[(Key, SocketAddr)]) -> Vec<Fault> {
    let mut seen: BTreeMap<SocketAddr, &Key> = BTreeMap::new();
    let mut faults = Vec::new();
    for (key, address) in all {
        faults.extend(port(key, *address));
        let other = *seen.entry(*address).or_insert(key);
        if other != key {
            faults.push(key.fault(format!("{address} is the address of {other}, too")));
        }
    }
    faults
}

fn port(key: &Key, address: SocketAddr) -> Option<Fault> {
    let message = format!("expected a port from 1 to 65535, got {address}");
    (address.port() == 0).then(|| key.fault(message))
}

/// Reads `example.org:443`, `192.0.2.1:443` or `[2001:db8::1]:443`.
pub(super) fn host_and_port(text: &str) -> Result<Destination, String> {
    let to = text.parse().ok().filter(|to: &Destination| to.port > 0);
    to.ok_or_else(|| {
        format!(
            "expected a host and a port, such as example.org:443 or [2001:db8::1]:443, got {text:?}"
        )
    })
}

/// Most descriptors of a place: a connection has two ends, an association of UDP its TCP connection
/// and its socket, and each of its outlets a socket. The same at both gateways.
const EACH: usize = 2;

/// Descriptors of everything but connections and queries: lookups, further attempts to connect,
/// status page, listeners, handshakes, paths and tunnels.
const RESERVE: usize = 1024;

/// Raises the limit of open files to what the process may have at most. The lower limit is for
/// programs that use select(2).
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("the limit of open files stays {:?}: {error}", limit.current);
    }
}

/// Fault of limits for which the process can't have enough descriptors.
fn fault(limits: &Limits, carrier: Carrier) -> Option<Fault> {
    // A query has one socket, and over Multipath TCP a connection of the tunnel.
    let each_query = match carrier {
        Carrier::Quic => 1,
        Carrier::Mptcp => 2,
    };
    let allowed = getrlimit(Resource::Nofile).maximum?;
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    let connections = limits.connections();
    let queries = limits.queries().saturating_mul(each_query);
    let rest = queries.saturating_add(RESERVE);
    let needed = connections.saturating_mul(EACH).saturating_add(rest);
    if needed <= allowed {
        return None;
    }
    // Queries have an eighth of the places of connections.
    let fit = allowed.saturating_sub(RESERVE) * 8 / (EACH * 8 + each_query);
    let smaller = if fit > 0 {
        format!(", or connections = {fit}")
    } else {
        String::new()
    };
    let message = format!(
        "{connections} connections need {needed} file descriptors, and this process may open \
         {allowed}: ulimit -n {needed}, LimitNOFILE={needed} in a unit{smaller}"
    );
    Some(Key::root("limits").key("connections").fault(message))
}

/// Whether the running kernel has registered this congestion control, as far as can be known.
pub(super) fn kernel_has(name: &str) -> bool {
    let available = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(available).map_or(true, |names| {
        names.split_whitespace().any(|other| other == name)
    })
}
