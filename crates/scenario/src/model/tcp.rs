//! The TCP and Multipath TCP endpoints.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::model::number::{Count, Positive, PositiveOrInfinite};

/// How endpoints behave; the same for every flow of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Size of a full data packet on the wire, headers included, bytes.
    #[schemars(extend("maximum" = 65535))]
    pub packet_bytes: Count,
    /// Headers of each packet, bytes: IPv4 20, TCP 20, timestamps 12. Goodput counts the rest. Less
    /// than `packet_bytes`.
    pub header_bytes: u32,
    /// Congestion window at the start of a connection, packets (RFC 6928).
    pub initial_window_packets: Count,
    /// Slow-start threshold at the start of a connection, packets; `inf`, the default, for none
    /// (RFC 5681).
    #[schemars(transform = without_default)]
    pub initial_ssthresh_packets: PositiveOrInfinite,
    /// Smallest slow-start threshold of a connection with several paths, packets. 1 lets the window
    /// of a bad path become very small (Balia, section V); 2 is RFC 5681's, which a connection with
    /// one path always has.
    pub min_ssthresh_packets: Count,
    /// Smallest retransmission timeout, ms (RFC 6298 says 1000, Linux has 200).
    #[schemars(extend("minimum" = 0.001, "maximum" = 1e9))]
    pub min_rto_ms: Positive,
    /// Acknowledge every second packet, or after 40 ms, instead of every packet (RFC 1122).
    pub delayed_acks: bool,
    /// How losses within one window are repaired.
    pub recovery: Recovery,
    /// Receive buffer of a connection, packets, shared by its paths (RFC 8684).
    pub receive_buffer_packets: Count,
    /// Which path gets the next packet of a connection.
    pub scheduler: Scheduler,
}

/// Removes a default that JSON cannot express: infinity.
fn without_default(schema: &mut Schema) {
    schema.remove("default");
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            packet_bytes: Count::constant(1500),
            header_bytes: 52,
            initial_window_packets: Count::constant(10),
            initial_ssthresh_packets: PositiveOrInfinite::constant(f64::INFINITY),
            min_ssthresh_packets: Count::constant(1),
            min_rto_ms: Positive::constant(200.0),
            delayed_acks: false,
            recovery: Recovery::Sack,
            receive_buffer_packets: Count::constant(100_000),
            scheduler: Scheduler::MinRtt,
        }
    }
}

/// How losses within one window are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// Selective acknowledgements (RFC 6675).
    Sack,
    /// One hole per round trip (RFC 6582).
    NewReno,
}

/// Which path gets the next packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The path with the smallest smoothed RTT whose window has room.
    MinRtt,
    /// The paths in turn, as far as their windows have room.
    RoundRobin,
    /// Linux 6.18's, for connections with several paths: a send buffer that grows with the windows,
    /// bursts of up to 64 kB that are queued at a path until its window has room, and
    /// retransmission of the oldest data over an idle path.
    Linux,
}
