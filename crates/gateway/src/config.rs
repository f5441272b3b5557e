//! Configuration of a gateway: one TOML file for `near`, one for `far`. Unknown keys are errors.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anabranch_scenario::Adjust;
use ipnet::IpNet;
use serde::Deserialize;

pub(crate) mod check;
pub mod descriptors;
pub mod destination;
pub mod difference;
pub mod read;
pub mod special;
mod warnings;

use destination::{Destinations, Rule};

/// Configuration of `near`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Near {
    /// Address or host name and port of `far`.
    pub far: String,
    /// How to reach `far`.
    pub tunnel: Tunnel,
    /// The local addresses or interfaces to use, in order of preference. At least one.
    pub paths: Vec<Path>,
    /// Where SOCKS5 is accepted.
    pub socks: Option<Socks>,
    /// Port forwards.
    #[serde(default)]
    pub forwards: Vec<Forward>,
    /// Where connections redirected by the packet filter are accepted (Linux).
    pub redirect: Option<Redirect>,
    /// Where names are resolved for clients, over the tunnel.
    pub dns: Option<Dns>,
    /// What happens to a connection, by its destination; the first rule that matches counts.
    /// Without a match: through the tunnel.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Limits.
    #[serde(default)]
    pub limits: Limits,
    /// Status and drain.
    #[serde(default)]
    pub operation: Operation,
}

/// Configuration of `far`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Far {
    /// Where tunnels are accepted.
    pub listen: SocketAddr,
    /// How tunnels are carried.
    pub tunnel: Tunnel,
    /// Destinations that `far` connects to. Nothing else is allowed.
    #[serde(default)]
    pub allow: Destinations,
    /// The resolver that answers DNS queries of `near`'s clients, e.g. `9.9.9.9:53`.
    pub resolver: Option<SocketAddr>,
    /// Limits.
    #[serde(default)]
    pub limits: Limits,
    /// Status and drain.
    #[serde(default)]
    pub operation: Operation,
}

/// The tunnel between the gateways.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// What carries it.
    pub carrier: Carrier,
    /// The rule that controls its windows, with its parameters as in a scenario: `olia`,
    /// `vegas:kappa=3`.
    pub algorithm: String,
    /// Own private key, as written by `keygen`.
    pub key: PathBuf,
    /// Public keys of the peers that are accepted, as printed by `keygen`.
    pub peers: Vec<String>,
    /// The weight of `vegas` follows the gateway's buffer (I-TCP).
    pub itcp: Option<Adjust>,
}

impl Tunnel {
    /// Whether they differ in their keys at most, which change at run time.
    pub fn is_same_but_keys(&self, other: &Tunnel) -> bool {
        let other = Tunnel {
            key: self.key.clone(),
            peers: self.peers.clone(),
            ..other.clone()
        };
        *self == other
    }
}

/// What carries a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// QUIC with several paths.
    Quic,
    /// Multipath TCP, or TCP where a kernel has none, with TLS 1.3.
    Mptcp,
}

/// A path: a local address or an interface.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Name in status, logs and rules.
    pub name: String,
    /// The local address that its packets have.
    pub address: Option<IpAddr>,
    /// The interface that its packets leave by; `address`, `interface` or both.
    pub interface: Option<String>,
    /// Whether it is used.
    #[serde(default)]
    pub role: Role,
    /// At most this many times the bytes of the paths of weight 1, in (0, 1].
    #[serde(default = "one")]
    pub weight: f64,
    /// At most this rate in each direction, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// Off once this many bytes were carried, sent and received, since the start.
    pub cap_bytes: Option<u64>,
}

fn one() -> f64 {
    1.0
}

/// Whether a path is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Always.
    #[default]
    Available,
    /// When no available path works.
    Backup,
    /// Never.
    Never,
}

/// A SOCKS5 listener.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Socks {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The networks of its clients. Without: this host only, and `listen` must be loopback.
    #[serde(default)]
    pub clients: Vec<IpNet>,
}

/// A port that leads to a fixed destination.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// Where connections are accepted.
    pub listen: SocketAddr,
    /// Host and port that `far` connects to.
    pub to: String,
    /// The networks of its clients. Without: this host only, and `listen` must be loopback.
    #[serde(default)]
    pub clients: Vec<IpNet>,
}

/// A listener for redirected connections.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The networks of its clients. Without: this host only, and `listen` must be loopback.
    #[serde(default)]
    pub clients: Vec<IpNet>,
}

/// A DNS listener, UDP and TCP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The networks of its clients. Without: this host only, and `listen` must be loopback.
    #[serde(default)]
    pub clients: Vec<IpNet>,
}

/// Limits against exhaustion.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Concurrent local connections (`near`), or streams of all tunnels (`far`).
    pub connections: usize,
    /// Limit of the connections of one client address (`near`) or one tunnel (`far`).
    pub connections_per_client: usize,
    /// Data buffered per direction of a connection, bytes.
    pub buffer_bytes: usize,
    /// Data buffered by one tunnel, bytes.
    pub tunnel_buffer_bytes: usize,
    /// Bytes per second of one client address, both directions.
    pub client_mbps: Option<f64>,
    /// How long a client may take for its request, s.
    pub handshake_s: f64,
    /// How long a connection may carry nothing, s.
    pub idle_s: f64,
    /// How long a connection of which one direction has ended may carry nothing, s.
    pub half_closed_s: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            connections_per_client: 1024,
            buffer_bytes: 256 << 10,
            tunnel_buffer_bytes: 64 << 20,
            client_mbps: None,
            handshake_s: 10.0,
            idle_s: 86400.0,
            half_closed_s: 3600.0,
        }
    }
}

/// Operation of the process.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operation {
    /// Status page, JSON and metrics.
    pub status: Option<SocketAddr>,
    /// How long connections may continue after SIGTERM, s.
    pub drain_s: f64,
}

impl Default for Operation {
    fn default() -> Self {
        Operation {
            status: None,
            drain_s: 30.0,
        }
    }
}
