//! The endpoints as written: keys that are not written have the profile's values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::number::{Count, NonNegative, Positive, PositiveOrInfinite};
use crate::model::tcp::{self, Profile, Recovery, RtoFloor, Scheduler};

/// How endpoints behave; the same for every flow of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// The values of the keys that are not written.
    pub profile: Profile,
    /// Size of a full data packet on the wire, headers included, bytes. Default: 1500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = 65535))]
    pub packet_bytes: Option<Count>,
    /// Headers of each packet, bytes; default: IPv4 20, TCP 20, timestamps 12. Goodput counts the
    /// rest. Less than `packet_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_bytes: Option<u32>,
    /// Congestion window at the start of a connection, packets. Default: 10 (RFC 6928).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window_packets: Option<Count>,
    /// Slow-start threshold at the start of a connection, packets; `inf`, the default, for none
    /// (RFC 5681).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_ssthresh_packets: Option<PositiveOrInfinite>,
    /// Smallest slow-start threshold of a connection with several paths, packets. 1, the default,
    /// lets the window of a bad path become very small (Balia, section V); 2 is RFC 5681's, which a
    /// connection with one path always has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ssthresh_packets: Option<Count>,
    /// Compute a loss-based rule's increase once per round trip of a path, as the kernel programs do
    /// (docs/kernel.md), instead of for every packet acknowledged. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub increase_per_round: Option<bool>,
    /// The floor of the retransmission timeout, ms. Default: 1000 (RFC 6298); profile `linux`: 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0.001, "maximum" = 1e9))]
    pub min_rto_ms: Option<Positive>,
    /// What `min_rto_ms` bounds. Default: `rto`; profile `linux`: `variance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_floor: Option<RtoFloor>,
    /// Undo a timeout if the echoed timestamp of the next ACK shows that nothing was lost: window
    /// and ssthresh as before (RFC 3522, RFC 4015). Default: false; profile `linux`: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<bool>,
    /// Acknowledge every second packet, or after 40 ms, instead of every packet (RFC 1122).
    /// Default: false; profile `linux`: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_acks: Option<bool>,
    /// With delayed ACKs: do not delay those of the first 16 packets of a path, nor of 16 packets
    /// after a silence longer than the timeout, as Linux. Default: false; profile `linux`: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quick_acks: Option<bool>,
    /// How losses are detected and repaired. Default: `sack`; profile `linux`: `rack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Receive buffer of a connection, packets, shared by its paths (RFC 8684). Default: 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer_packets: Option<Count>,
    /// The paths of a connection but the first open when MP_JOIN is over (RFC 8684): a round trip of
    /// the first path after its start and two of their own, without queues; if false, with the
    /// connection. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_handshake: Option<bool>,
    /// Which path gets the next packet of a connection. Default: `min-rtt`; profile `linux`:
    /// `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// With Linux' scheduler: the send buffer of a path, windows. Default: 2, as in Linux;
    /// `anabranch-kernel` gives its algorithms 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer_windows: Option<Count>,
    /// With Linux' scheduler: a path gets no more data while so many unsent bytes wait in its queue
    /// (Linux' `tcp_notsent_lowat` and `TCP_NOTSENT_LOWAT`). Default: `inf`, as in Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notsent_bytes: Option<PositiveOrInfinite>,
    /// The longest time for which the sender's host delays a packet, us. Each packet is delayed by
    /// a random time, uniform up to this, and none overtakes another of the same path. Hosts
    /// without it are clocks: at a drop-tail queue some of them find the queue full much more often
    /// than others (phase effects, Floyd and Jacobson 1992). The usual remedy is one packet time of
    /// the bottleneck (ns-2's `overhead_`); equal losses take ten (`crates/sim/tests/laws/jitter.rs`). Default: 0; profile `linux`: 100, because the lab's
    /// packets are 24 us late in the median and 75 us at the 99th percentile (docs/lab.md); uniform
    /// up to 100 us has 50 and 99 us.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = 1e6))]
    pub host_jitter_us: Option<NonNegative>,
}

/// Implements what concerns every key but `profile`.
macro_rules! keys {
    ($($key:ident)+) => {
        impl Tcp {
            /// Every key, with the profile's value where none is written.
            pub fn resolve(&self) -> tcp::Tcp {
                let profile = tcp::Tcp::of(self.profile);
                tcp::Tcp { $($key: self.$key.unwrap_or(profile.$key)),+ }
            }

            /// The same endpoints with every key written.
            pub fn complete(&self) -> Tcp {
                let tcp = self.resolve();
                Tcp { profile: self.profile, $($key: Some(tcp.$key)),+ }
            }
        }
    };
}

keys! {
    packet_bytes header_bytes initial_window_packets initial_ssthresh_packets min_ssthresh_packets
    increase_per_round min_rto_ms rto_floor undo delayed_acks quick_acks recovery
    receive_buffer_packets join_handshake scheduler send_buffer_windows notsent_bytes host_jitter_us
}
