//! Status of a gateway: the JSON document, from which page, table and metrics are made.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::carrier::Condition;

/// Status of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `near` or `far`.
    pub role: String,
    /// Version of the program.
    pub version: String,
    /// Phase of the process.
    pub phase: Phase,
    /// Time since the start, s.
    pub uptime_s: u64,
    /// `quic` or `mptcp`.
    pub carrier: String,
    /// The rule, with its parameters.
    pub algorithm: String,
    /// The last reload.
    pub reload: Option<Reload>,
    /// Number of present connections.
    pub connections: u64,
    /// Counters, as in the metrics.
    pub counters: Vec<Counted>,
    /// Established tunnels.
    pub tunnels: Vec<TunnelStatus>,
    /// Tunnels that are not established, each with the reason.
    #[serde(default)]
    pub failures: Vec<String>,
}

/// Phase of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// No tunnel has been established yet.
    #[default]
    Starting,
    /// At work.
    Ready,
    /// The gateway accepts nothing new, and ends with its last connection.
    Draining,
}

/// Name, as in JSON.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The outcome of the last reload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reload {
    /// Parts of the configuration that were applied.
    pub applied: Vec<String>,
    /// Parts that have changed and take effect with a restart only.
    pub restart: Vec<String>,
    /// Reasons for which the file was refused; then nothing was changed.
    pub errors: Vec<String>,
}

/// A counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Name of the metric, without prefix.
    pub name: String,
    /// A label and its value.
    pub label: Option<(String, String)>,
    /// Whether the value also falls.
    pub gauge: bool,
    /// Meaning of the value.
    pub help: String,
    /// Present value.
    pub value: u64,
}

/// An established tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TunnelStatus {
    /// Name of the tunnel: on `far` the end of the peer's public key; on `near` empty, or
    /// `path:NAME` or `datagrams:NAME` if it is over one path.
    pub name: String,
    /// Weight of its rule, if that has one.
    pub kappa: Option<f64>,
    /// Accepted data that was never sent, bytes.
    pub unsent_bytes: u64,
    /// Data accepted from local connections, bytes.
    pub accepted_bytes: u64,
    /// Paths of the tunnel.
    pub paths: Vec<PathStatus>,
}

/// A path of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// Configured name; on `far` the peer's address.
    pub name: String,
    /// Condition of the path.
    pub condition: Condition,
    /// Reason for a condition in which it carries nothing.
    #[serde(default)]
    pub reason: Option<String>,
    /// Own address.
    pub local: Option<String>,
    /// Interface that its packets leave by.
    #[serde(default)]
    pub interface: Option<String>,
    /// Rate sent in the last second, Mbit/s, with the headers that the carrier knows of.
    pub sent_mbps: f64,
    /// Rate received in the last second, Mbit/s, with the same headers.
    pub received_mbps: f64,
    /// Share of the bytes that its tunnel sent and received in the last 10 s; 0 to 1. `None`
    /// if there are none.
    pub share: Option<f64>,
    /// Smoothed round-trip time, ms.
    pub rtt_ms: Option<f64>,
    /// Smallest round-trip time, ms.
    pub base_rtt_ms: Option<f64>,
    /// Fraction of the packets sent in the last 10 s that were declared lost; `None` if none were
    /// sent.
    pub loss: Option<f64>,
    /// Congestion window, packets.
    pub window_packets: f64,
    /// Largest datagram or segment, bytes.
    pub mtu_bytes: u32,
    /// Bytes sent since the tunnel was established.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Number of times that the path was found dead.
    pub deaths: u64,
}
