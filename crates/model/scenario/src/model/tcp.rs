//! The keys of `[tcp]`, one after the other: what a key means, its type, which has its range, and
//! its value where it is not written. The endpoints, their form in the file and its JSON Schema are
//! made from this table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::endpoint::{Ecn, Profile, Recovery, RtoFloor};
use crate::model::number::{Count, JitterUs, PacketBytes, PositiveOrInfinite, TimeoutMs};
use crate::model::scheduler::Scheduler;

/// The third number of `net.ipv4.tcp_rmem` in distributions.
pub const DISTRIBUTIONS_RMEM_MAX_BYTES: f64 = (6 << 20) as f64;

/// Declares the keys: `name: Type = value;`, with `, linux: value` where that profile has another.
macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident: $Type:ty = $rfc:expr $(, linux: $linux:expr)?;)+) => {
        /// How endpoints behave; the same for every flow of a scenario.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Tcp {
            $($(#[$doc])* pub $key: $Type,)+
        }

        impl Tcp {
            /// The values of a profile.
            pub fn of(profile: Profile) -> Tcp {
                let linux = profile == Profile::Linux;
                Tcp { $($key: value(linux, $rfc, [$($linux)?]),)+ }
            }
        }

        /// How endpoints behave; the same for every flow of a scenario.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[schemars(rename = "Tcp")]
        pub(crate) struct Written {
            /// The values of the keys that are not written.
            profile: Profile,
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] $key: Option<$Type>,)+
        }

        impl Written {
            /// Every key, with the profile's value where none is written.
            pub fn resolve(&self) -> Tcp {
                let profile = Tcp::of(self.profile);
                Tcp { $($key: self.$key.unwrap_or(profile.$key),)+ }
            }

            /// The same endpoints with every key written.
            pub fn complete(&self) -> Written {
                let tcp = self.resolve();
                Written { profile: self.profile, $($key: Some(tcp.$key),)+ }
            }
        }
    };
}

/// The value of a key in a profile: Linux' own, if it has one.
fn value<T, const OWN: usize>(linux: bool, rfc: T, own: [T; OWN]) -> T {
    own.into_iter().find(|_| linux).unwrap_or(rfc)
}

keys! {
    /// Size of a full data packet on the wire, headers included, bytes. Default: 1500.
    packet_bytes: PacketBytes = PacketBytes::constant(1500);
    /// Headers of each packet, bytes; default: IPv4 20, TCP 20, timestamps 12. Goodput counts the
    /// rest. Less than `packet_bytes`.
    header_bytes: u32 = 52;
    /// Congestion window at the start of a connection, packets. Default: 10 (RFC 6928).
    initial_window_packets: Count = Count::constant(10);
    /// Slow-start threshold at the start of a connection, packets; `inf`, the default, for none
    /// (RFC 5681).
    initial_ssthresh_packets: PositiveOrInfinite = PositiveOrInfinite::constant(f64::INFINITY);
    /// Smallest slow-start threshold of a connection with several paths, packets. 1, the default,
    /// lets the window of a bad path become very small (Balia, section V); 2 is RFC 5681's, which a
    /// connection with one path always has.
    min_ssthresh_packets: Count = Count::constant(1);
    /// Compute a loss-based rule's increase once per round trip of a path, as the kernel programs
    /// do (docs/reference/kernel.md), instead of for every packet acknowledged.
    /// Default: false.
    increase_per_round: bool = false;
    /// The floor of the retransmission timeout, ms. Default: 1000 (RFC 6298); profile `linux`: 200.
    min_rto_ms: TimeoutMs = TimeoutMs::constant(1000.0), linux: TimeoutMs::constant(200.0);
    /// Quantity that `min_rto_ms` bounds. Default: `rto`; profile `linux`: `variance`.
    rto_floor: RtoFloor = RtoFloor::Rto, linux: RtoFloor::Variance;
    /// Undo a timeout if the echoed timestamp of the next ACK shows that nothing was lost: window
    /// and ssthresh as before (RFC 3522, RFC 4015). Default: false; profile `linux`: true.
    undo: bool = false, linux: true;
    /// Acknowledge every second packet, or after 40 ms, instead of every packet (RFC 1122).
    /// Default: false; profile `linux`: true.
    delayed_acks: bool = false, linux: true;
    /// With delayed ACKs: do not delay those of the first 16 packets of a path, nor of 16 packets
    /// after a silence longer than the timeout, as Linux. Default: false; profile `linux`: true.
    quick_acks: bool = false, linux: true;
    /// How losses are detected and repaired. Default: `sack`; profile `linux`: `rack`.
    recovery: Recovery = Recovery::Sack, linux: Recovery::Rack;
    /// Packets may be marked instead of dropped by links with RED, CoDel, FQ-CoDel, PIE or DualPI2,
    /// and a mark reduces the window as a loss does, at most once per round trip (RFC 3168;
    /// docs/reference/queues.md). With "accurate" acknowledgements count the marked packets
    /// (AccECN, RFC 9768), which `dctcp` needs. Not on `kernel`. Default: false.
    ecn: Ecn = Ecn::Off;
    /// Receive buffer of a connection, packets, shared by its paths (RFC 8684). Default: 100000.
    receive_buffer_packets: Count = Count::constant(100_000);
    /// On sim and kernel: the largest receive buffer of a connection, bytes (`net.ipv4.tcp_rmem`),
    /// if that is less than `receive_buffer_packets` take. A full packet of 1500 bytes takes 2304,
    /// so that a buffer of 6291456 holds 2730. Default: `inf`, on kernel 6291456, as distributions
    /// have it; profile `linux`: 6291456.
    rmem_max_bytes: PositiveOrInfinite = PositiveOrInfinite::constant(f64::INFINITY),
        linux: PositiveOrInfinite::constant(DISTRIBUTIONS_RMEM_MAX_BYTES);
    /// On kernel, and with Linux' scheduler: the largest send buffer of a path, bytes
    /// (`net.ipv4.tcp_wmem`), if that is less than `receive_buffer_packets` take. Default: 4194304,
    /// as distributions have it.
    wmem_max_bytes: Count = Count::constant(4 << 20);
    /// The paths of a connection but the first open when MP_JOIN is over (RFC 8684): a round trip
    /// of the first path after its start and two of their own, without queues; if false, with the
    /// connection. Default: true.
    join_handshake: bool = true;
    /// The choice of the path for the next packet of a connection. Default: `min-rtt`; profile
    /// `linux`:
    /// `linux`.
    scheduler: Scheduler = Scheduler::MinRtt, linux: Scheduler::Linux;
    /// With Linux' scheduler: the send buffer of a path, windows. Default: 2, as in Linux;
    /// `anabranch-kernel` gives its algorithms 16.
    send_buffer_windows: Count = Count::constant(2);
    /// With Linux' scheduler: a path gets no more data while so many unsent bytes wait in its queue
    /// (Linux' `tcp_notsent_lowat` and `TCP_NOTSENT_LOWAT`). Default: `inf`, as in Linux.
    notsent_bytes: PositiveOrInfinite = PositiveOrInfinite::constant(f64::INFINITY);
    /// The longest time for which the sender's host delays a packet, us. Each packet is delayed by
    /// a random time, uniform up to this, and none overtakes another of the same path. Hosts
    /// without it are clocks: at a drop-tail queue some of them find the queue full much more often
    /// than others (phase effects, Floyd and Jacobson 1992). The usual remedy is one packet time of
    /// the bottleneck (ns-2's `overhead_`); equal losses take ten
    /// (`crates/model/sim/tests/laws/jitter.rs`). Default: 0; profile `linux`: 100, because the
    /// lab's packets are 24 us late in the median and 75 us at the 99th percentile
    /// (docs/reference/lab.md); uniform up to 100 us has 50 and 99 us.
    host_jitter_us: JitterUs = JitterUs::constant(0.0), linux: JitterUs::constant(100.0);
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp::of(Profile::default())
    }
}
