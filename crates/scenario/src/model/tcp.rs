//! The TCP and Multipath TCP endpoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::number::{Count, NonNegative, Positive, PositiveOrInfinite};

/// How endpoints behave; the same for every flow of a scenario. `file/tcp.rs` documents the keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// Size of a full data packet, headers included, bytes.
    pub packet_bytes: Count,
    /// Headers of each packet, bytes.
    pub header_bytes: u32,
    /// Congestion window at the start of a connection, packets.
    pub initial_window_packets: Count,
    /// Slow-start threshold at the start of a connection, packets.
    pub initial_ssthresh_packets: PositiveOrInfinite,
    /// Smallest slow-start threshold of a connection with several paths, packets.
    pub min_ssthresh_packets: Count,
    /// Compute the rule's increase once per round trip, instead of for every packet acknowledged.
    pub increase_per_round: bool,
    /// The floor of the retransmission timeout, ms.
    pub min_rto_ms: Positive,
    /// What the floor bounds.
    pub rto_floor: RtoFloor,
    /// Whether spurious timeouts are undone.
    pub undo: bool,
    /// Acknowledge every second packet, or after 40 ms, instead of every packet.
    pub delayed_acks: bool,
    /// Whether the first ACKs, and those after idle, are not delayed.
    pub quick_acks: bool,
    /// How losses are detected and repaired.
    pub recovery: Recovery,
    /// Receive buffer of a connection, packets.
    pub receive_buffer_packets: Count,
    /// Whether the paths of a connection but the first open after the handshakes of MP_JOIN.
    pub join_handshake: bool,
    /// Which path gets the next packet of a connection.
    pub scheduler: Scheduler,
    /// Send buffer of a path with Linux' scheduler, windows.
    pub send_buffer_windows: Count,
    /// The most unsent data that Linux' scheduler leaves in a path's queue, bytes.
    pub notsent_bytes: PositiveOrInfinite,
    /// The longest time for which the sender's host delays a packet, us.
    pub host_jitter_us: NonNegative,
}

impl Tcp {
    /// The values of a profile.
    pub fn of(profile: Profile) -> Tcp {
        let rfc = Tcp {
            packet_bytes: Count::constant(1500),
            header_bytes: 52,
            initial_window_packets: Count::constant(10),
            initial_ssthresh_packets: PositiveOrInfinite::constant(f64::INFINITY),
            min_ssthresh_packets: Count::constant(1),
            increase_per_round: false,
            min_rto_ms: Positive::constant(1000.0),
            rto_floor: RtoFloor::Rto,
            undo: false,
            delayed_acks: false,
            quick_acks: false,
            recovery: Recovery::Sack,
            receive_buffer_packets: Count::constant(100_000),
            join_handshake: true,
            scheduler: Scheduler::MinRtt,
            send_buffer_windows: Count::constant(2),
            notsent_bytes: PositiveOrInfinite::constant(f64::INFINITY),
            host_jitter_us: NonNegative::constant(0.0),
        };
        match profile {
            Profile::Rfc => rfc,
            Profile::Linux => Tcp {
                min_rto_ms: Positive::constant(200.0),
                rto_floor: RtoFloor::Variance,
                undo: true,
                delayed_acks: true,
                quick_acks: true,
                recovery: Recovery::Rack,
                scheduler: Scheduler::Linux,
                host_jitter_us: NonNegative::constant(100.0),
                ..rfc
            },
        }
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp::of(Profile::default())
    }
}

/// Values of several keys at once. Common to both: an initial window of 10 packets, SACK, and
/// timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The endpoint of the standards: timeouts of RFC 6298 with its floor of 1 s, recovery by RFC
    /// 6675 (`newreno`: RFC 6582), an ACK per packet, the min-RTT scheduler. It is the default,
    /// because the equations of the rules assume it: every packet is acknowledged, and a rise of
    /// the RTT by less than 1 s causes no spurious timeout.
    #[default]
    Rfc,
    /// A machine's stack. Linux 6: `min_rto_ms = 200` with `rto_floor = "variance"`, undo of
    /// spurious timeouts, delayed ACKs with quick ACKs, RACK with tail loss probes, Linux'
    /// scheduler, and a host that is not a clock: `host_jitter_us = 100`.
    Linux,
}

/// What `min_rto_ms` bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtoFloor {
    /// The timeout, srtt + 4 rttvar (RFC 6298).
    Rto,
    /// What it adds to the smoothed RTT. As in Linux this is 4 times the largest deviation of a
    /// round trip, and falls by a quarter of the difference per round trip.
    Variance,
}

/// How losses are detected and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// Selective acknowledgements (RFC 6675).
    Sack,
    /// Selective acknowledgements, loss detection by send times, which finds lost retransmissions
    /// too, and a probe for the last packets (RFC 8985).
    Rack,
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
