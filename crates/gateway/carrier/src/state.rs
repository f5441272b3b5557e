//! The state of a tunnel's paths, for its users.

use std::fmt;
use std::net::IpAddr;

/// Condition of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// It carries data, or would.
    Up,
    /// It is open, and used when no available path works.
    Standby,
    /// It is being opened.
    #[default]
    Opening,
    /// Nothing returned over it; it is tried again.
    Dead,
    /// The path's data cap is reached, or its role is `never`.
    Off,
}

/// Name, as in JSON.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        serde::Serialize::serialize(self, f)
    }
}

/// A path's state and counters. Counters start with the tunnel.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct PathState {
    /// Configured name, or the peer's address on `far`.
    pub name: String,
    /// Present condition.
    pub condition: Condition,
    /// Own address.
    pub local: Option<IpAddr>,
    /// Bytes sent, headers of datagrams or segments included as far as known.
    pub sent_bytes: u64,
    /// Bytes received, with the same headers as in `sent_bytes`.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Smoothed round-trip time, s; `None` before the first sample.
    pub rtt_s: Option<f64>,
    /// Smallest round-trip time, s; `None` before the first sample.
    pub base_rtt_s: Option<f64>,
    /// Congestion window, packets.
    pub window_packets: f64,
    /// Largest datagram or segment that the path carries, bytes.
    pub mtu_bytes: u32,
    /// Number of times that the path was found dead.
    pub deaths: u64,
}
