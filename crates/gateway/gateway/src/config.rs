//! Configuration of a gateway: one TOML file for `near`, one for `far`. Unknown keys are errors.

pub(crate) mod check;
pub mod destination;
pub mod difference;
pub mod init;
pub mod read;
pub mod services;
mod warnings;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_scenario::Adjust;
use ipnet::IpNet;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::carrier::{self, Settings};
use crate::keys::PublicKey;
use crate::wire::Destination;
use destination::{Destinations, Rule};

pub use anabranch_carrier::{Carrier, Live, Path, Role};

/// Configuration of `near`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Near {
    /// Address or host name and port of `far`.
    pub far: String,
    /// Tunnel to `far`.
    pub tunnel: Tunnel,
    /// Local addresses or interfaces to use, in order of preference. At least one.
    pub paths: Vec<Path>,
    /// Listener for SOCKS5.
    pub socks: Option<Listen>,
    /// Port forwards.
    #[serde(default)]
    pub forwards: Vec<Forward>,
    /// Listener for connections that the packet filter has redirected (Linux).
    pub redirect: Option<Listen>,
    /// Listener for DNS over UDP and TCP; names are resolved over the tunnel.
    pub dns: Option<Listen>,
    /// Actions for connections, by destination; the first rule that matches counts. Without a
    /// match: through the tunnel.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Limits.
    #[serde(default)]
    pub limits: Limits,
    /// Status and drain.
    #[serde(default)]
    pub operation: Operation,
}

impl Near {
    /// Settings of its tunnels.
    pub fn settings(&self) -> Settings {
        let streams = match self.tunnel.carrier {
            Carrier::Quic => self.limits.streams(),
            Carrier::Mptcp => self.limits.connections(),
        };
        self.tunnel.settings(&self.limits, streams)
    }
}

/// Configuration of `far`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Far {
    /// Address at which tunnels are accepted.
    pub listen: SocketAddr,
    /// Tunnels to `near`.
    pub tunnel: Tunnel,
    /// Destinations that `far` connects to. Nothing else is allowed.
    #[serde(default)]
    pub allow: Destinations,
    /// The resolver that answers DNS queries of `near`'s clients, e.g. `9.9.9.9:53`.
    pub resolver: Option<SocketAddr>,
    /// Limits.
    #[serde(default = "Limits::of_far", deserialize_with = "limits_of_far")]
    pub limits: Limits,
    /// Status and drain.
    #[serde(default)]
    pub operation: Operation,
}

impl Far {
    /// Settings of its tunnels.
    pub fn settings(&self) -> Settings {
        self.tunnel.settings(&self.limits, self.limits.streams())
    }
}

/// Tunnel between the gateways.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// Protocol that carries the tunnel.
    pub carrier: Carrier,
    /// Congestion-control rule with its parameters, as in a scenario: `olia`, `vegas:kappa=3`.
    pub algorithm: String,
    /// Own private key, as written by `keygen`.
    pub key: PathBuf,
    /// Peers that are accepted.
    pub peers: Vec<Peer>,
    /// Adjustment of the weight of `vegas` by the gateway's buffer (I-TCP).
    pub itcp: Option<Adjust>,
}

impl Tunnel {
    /// The peer with this key.
    pub fn peer(&self, key: &PublicKey) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.key == *key)
    }

    fn settings(&self, limits: &Limits, streams: usize) -> Settings {
        Settings {
            carrier: self.carrier,
            algorithm: self.algorithm.clone(),
            sets_kappa: self.itcp.is_some(),
            limits: carrier::Limits {
                streams,
                streams_of_all: limits.connections() + limits.queries() + HEADS,
                tunnel_buffer_bytes: limits.tunnel_buffer_bytes,
                handshake: Duration::from_secs_f64(limits.handshake_s),
            },
        }
    }

    /// This tunnel over QUIC, see [`Settings::over_quic`].
    pub fn over_quic(&self) -> Tunnel {
        let settings = self.settings(&Limits::default(), 0).over_quic();
        Tunnel {
            carrier: settings.carrier,
            algorithm: settings.algorithm,
            ..self.clone()
        }
    }

    /// This tunnel with the keys of another, which change at run time.
    pub fn with_keys(&self, other: &Tunnel) -> Tunnel {
        Tunnel {
            key: other.key.clone(),
            peers: other.peers.clone(),
            ..self.clone()
        }
    }
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Networks of its clients. Without: this host only, and `listen` must be loopback.
    #[serde(default)]
    pub clients: Vec<IpNet>,
}

/// A port that leads to a fixed destination.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// Address at which connections are accepted.
    pub listen: SocketAddr,
    /// Host and port that `far` connects to.
    #[serde(deserialize_with = "host_and_port")]
    pub to: Destination,
    /// Networks of its clients. Without: this host only, and `listen` must be loopback.
    #[serde(default)]
    pub clients: Vec<IpNet>,
    /// Whether it is for datagrams of UDP, and not for connections.
    #[serde(default)]
    pub udp: bool,
}

fn host_and_port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Destination, D::Error> {
    check::host_and_port(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Limits against exhaustion.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Concurrent connections, UDP associations and their sockets included. Without: 4096 on
    /// `near`, 8192 on `far`.
    pub connections: Option<usize>,
    /// Limit of the connections of one client (`near`) or one key (`far`). Without: a
    /// quarter of `connections` on `near`, half of them on `far`.
    pub connections_per_client: Option<usize>,
    /// Tunnels of one key (`far`).
    pub tunnels_per_client: usize,
    /// Data buffered per direction of a connection, bytes.
    pub buffer_bytes: usize,
    /// Data buffered by one tunnel, bytes.
    pub tunnel_buffer_bytes: usize,
    /// Largest rate of one client (`near`) or one key (`far`), both directions, Mbit/s.
    pub client_mbps: Option<f64>,
    /// Longest time of a client for its request, s.
    pub handshake_s: f64,
    /// Longest time that a connection may carry nothing, s.
    pub idle_s: f64,
    /// Longest time that a connection of which one direction has ended may carry nothing, s.
    pub half_closed_s: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: None,
            connections_per_client: None,
            tunnels_per_client: 16,
            buffer_bytes: 256 << 10,
            tunnel_buffer_bytes: 64 << 20,
            client_mbps: None,
            handshake_s: 10.0,
            idle_s: 86400.0,
            half_closed_s: 3600.0,
        }
    }
}

impl Limits {
    fn of_far() -> Limits {
        Limits::default().filled_for_far()
    }

    /// Defaults of `far`: one key has as many connections as `near` has, and half of all.
    fn filled_for_far(mut self) -> Limits {
        let connections = *self.connections.get_or_insert(8192);
        self.connections_per_client
            .get_or_insert(connections.div_ceil(2));
        self
    }

    /// Concurrent connections.
    pub fn connections(&self) -> usize {
        self.connections.unwrap_or(4096)
    }

    /// Concurrent connections of one client.
    pub fn connections_per_client(&self) -> usize {
        let quarter = self.connections().div_ceil(4);
        self.connections_per_client.unwrap_or(quarter)
    }

    /// Most DNS queries at a time. They have places of their own beside the connections.
    pub fn queries(&self) -> usize {
        self.connections().div_ceil(8).max(FEW)
    }

    /// Most DNS queries of one client at a time: the part that it has of the connections.
    pub fn queries_per_client(&self) -> usize {
        let part = self.connections_per_client().min(self.connections());
        let queries = self.queries() * part / self.connections().max(1);
        queries.max(FEW)
    }

    /// Most bytes of datagrams that wait in all queues; a datagram fits into it.
    pub fn datagram_bytes(&self) -> usize {
        self.tunnel_buffer_bytes.max(1 << 20)
    }

    /// Most streams that a peer may open in one tunnel, including those whose purpose is not known
    /// yet.
    pub fn streams(&self) -> usize {
        self.connections_per_client() + self.queries_per_client() + HEADS
    }
}

/// Least number of places for DNS queries.
const FEW: usize = 16;

/// Streams of one tunnel whose heads have not arrived.
pub const HEADS: usize = 256;

fn limits_of_far<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    Ok(Limits::deserialize(deserializer)?.filled_for_far())
}

/// Operation of the process.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operation {
    /// Status page, JSON and metrics.
    pub status: Option<SocketAddr>,
    /// Longest time that connections may continue after SIGTERM, s.
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

/// A gateway whose tunnels are accepted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Peer {
    /// Public key, as printed by `keygen`.
    #[serde(deserialize_with = "key")]
    pub key: PublicKey,
    /// Name in status and logs.
    pub name: Option<String>,
    /// Destinations that `far` connects to for this peer, instead of its `allow`.
    pub allow: Option<Destinations>,
}

fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PublicKey, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

impl From<PublicKey> for Peer {
    fn from(key: PublicKey) -> Peer {
        Peer {
            key,
            name: None,
            allow: None,
        }
    }
}

impl<'de> Deserialize<'de> for Peer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Peer, D::Error> {
        deserializer.deserialize_any(KeyOrTable)
    }
}

struct KeyOrTable;

impl<'de> Visitor<'de> for KeyOrTable {
    type Value = Peer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a public key, or a table with key, name and allow")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Peer, E> {
        let key: PublicKey = text.parse().map_err(E::custom)?;
        Ok(key.into())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Peer, M::Error> {
        Peer::deserialize(MapAccessDeserializer::new(map))
    }
}
