//! The keys of `[tcp]`, one after the other: what a key means, its type, which has its range, and
//! its value where it is not written. The endpoints, their form in the file and its JSON Schema are
//! made from this table; below it are the choices of its keys, with the schedulers.

use anabranch_control::AnyController;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::refusal;
use crate::model::choice::Ecn;
use crate::model::number::{Count, JitterUs, PacketBytes, PositiveOrInfinite, TimeoutMs};

/// The third number of `net.ipv4.tcp_rmem` in distributions.
pub const DISTRIBUTIONS_RMEM_MAX_BYTES: f64 = (6 << 20) as f64;

/// Declares the keys: `name: Type = value;`, with `, linux: value` where profiles of Linux have
/// another, and `, linux_7_0: value` where that of Linux 7.0 has one of its own.
macro_rules! keys {
    ($(
        $(#[$doc:meta])* $key:ident: $Type:ty = $rfc:expr
        $(, linux: $linux:expr)? $(, linux_7_0: $newer:expr)?;
    )+) => {
        /// How endpoints behave; the same for every flow of a scenario.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Tcp {
            $($(#[$doc])* pub $key: $Type,)+
        }

        impl Tcp {
            /// The values of a profile.
            pub fn of(profile: Profile) -> Tcp {
                let linux = profile != Profile::Rfc;
                let newer = profile == Profile::Linux70;
                Tcp {
                    $($key: value(newer, value(linux, $rfc, [$($linux)?]), [$($newer)?]),)+
                }
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

impl Tcp {
    /// Whether a connection over this number of paths runs a program of `anabranch-kernel`.
    pub fn runs_program(&self, controller: &AnyController, paths: usize) -> bool {
        let on_linux = self.kernel_programs && self.scheduler == Scheduler::Linux;
        on_linux && paths > 1 && controller.has_program()
    }

    /// Memory that Linux accounts for a full packet in a buffer, bytes: `tcp_sndbuf_expand` with
    /// `MAX_TCP_HEADER` of a kernel without wireless networks, and about what `skb->truesize` is at
    /// the receiver (`tcp_measure_rcv_mss`); 2304 for 1500.
    pub fn packet_memory(&self) -> u64 {
        (u64::from(self.packet_bytes.get()) + 536).next_power_of_two() + 256
    }

    /// The full packets that the receive buffer of a connection holds when it has grown.
    pub fn receive_packets(&self) -> u32 {
        let largest = (self.rmem_max_bytes.get() / self.packet_memory() as f64).max(1.0);
        self.receive_buffer_packets.get().min(largest as u32)
    }
}

/// The value of a key in a profile: its own, if it has one.
fn value<T, const OWN: usize>(has_own: bool, other: T, own: [T; OWN]) -> T {
    own.into_iter().find(|_| has_own).unwrap_or(other)
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
    /// connection with one path always has, and one with `kernel_programs` at least.
    min_ssthresh_packets: Count = Count::constant(1);
    /// Compute a loss-based rule's increase once per round trip of a path, as the kernel programs
    /// do (docs/reference/kernel.md), instead of for every packet acknowledged.
    /// Default: false.
    increase_per_round: bool = false;
    /// In congestion avoidance a loss-based rule's increase is added once per acknowledgement
    /// instead of for every packet acknowledged, which halves the growth where `delayed_acks` are
    /// on: so the rules of Multipath TCP 0.9x for Linux 3 and 4. Default: false.
    increase_per_ack: bool = false;
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
    /// (AccECN, RFC 9768), which `dctcp` needs; on `kernel` if Linux has it. Default: false;
    /// profile `linux-7.0`: "accurate".
    ecn: Ecn = Ecn::Off, linux_7_0: Ecn::Accurate;
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
    /// On sim, with Linux' scheduler: the host has the programs of `anabranch-kernel`. A connection
    /// over several paths whose rule has one holds late paths back, limits unsent data, paces paths
    /// that were held, has send buffers of 4 windows, computes increases once per round trip and
    /// has a smallest slow-start threshold of 2 (docs/reference/kernel.md); Linux' own `reno`,
    /// `cubic` and `bbr` are as without. On kernel it is as the program was loaded. Default: false;
    /// profile `linux`: true.
    kernel_programs: bool = false, linux: true;
    /// With Linux' scheduler: the send buffer of a path, windows, where `kernel_programs` do not
    /// determine it. Default: 2, as in Linux.
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

// Choices of the endpoints' keys.

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
    /// A machine's stack, Linux 6.18: `min_rto_ms = 200` with `rto_floor = "variance"`, undo of
    /// spurious timeouts, delayed ACKs with quick ACKs, RACK with tail loss probes, Linux'
    /// scheduler, the programs of `anabranch-kernel` (`kernel_programs`), receive buffers of 6 MB
    /// (`rmem_max_bytes`), and a host that is not a clock: `host_jitter_us = 100`.
    Linux,
    /// As `linux`, with the default of Linux 7.0: connections negotiate accurate ECN
    /// (`ecn = "accurate"`).
    #[serde(rename = "linux-7.0")]
    Linux70,
}

/// Quantity that `min_rto_ms` bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtoFloor {
    /// The timeout, srtt + 4 rttvar (RFC 6298).
    Rto,
    /// The part beyond the smoothed RTT, of which the handshake is the first sample. As in Linux
    /// this is 4 times the largest deviation of a round trip, and falls by a quarter of the
    /// difference per round trip.
    Variance,
}

/// How losses are detected and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// Selective acknowledgements (RFC 6675).
    Sack,
    /// Selective acknowledgements, loss detection by send times, which finds lost retransmissions
    /// too and learns how late packets of a path may be (docs/reference/traces.md), and a probe for
    /// the last packets (RFC 8985).
    Rack,
    /// One hole per round trip (RFC 6582).
    NewReno,
}

// The schedulers of Multipath TCP, one after the other. The key `tcp.scheduler`, its JSON Schema,
// the errors of backends that lack one, the laws and the table of
// docs/reference/schedulers.md are made from this table.

/// Declares the schedulers: a row is the variant, its name in files, whether it sends data again
/// over another path without a timeout, the backends, and the source.
macro_rules! schedulers {
    ($(
        $(#[doc = $meaning:literal])+ $Variant:ident = $name:literal, repeats: $repeats:literal,
        on: $backends:expr, source: $source:literal;
    )+) => {
        /// The choice of the path that gets the next packet of a connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum Scheduler {
            $($(#[doc = $meaning])+ #[serde(rename = $name)] $Variant,)+
        }

        impl Scheduler {
            /// Every scheduler, in the order of the table.
            pub const ALL: &[Scheduler] = &[$(Scheduler::$Variant),+];

            /// Name in a scenario.
            pub const fn name(self) -> &'static str {
                match self { $(Scheduler::$Variant => $name),+ }
            }

            /// Meaning, in a sentence or two.
            pub const fn meaning(self) -> &'static str {
                match self { $(Scheduler::$Variant => concat!($($meaning),+).trim_ascii()),+ }
            }

            /// Where it is described.
            pub const fn source(self) -> &'static str {
                match self { $(Scheduler::$Variant => $source),+ }
            }

            /// Whether it sends data over a second path without a timeout, so that packets are sent
            /// again although none is lost.
            pub const fn repeats(self) -> bool {
                match self { $(Scheduler::$Variant => $repeats),+ }
            }

            /// The backends that run scenarios with it.
            pub const fn backends(self) -> &'static [&'static str] {
                match self { $(Scheduler::$Variant => $backends),+ }
            }
        }
    };
}

/// Every backend: `quic` has its own scheduler (docs/reference/quic.md), the equations have none.
const ALL: &[&str] = &["sim", "quic", "kernel", "fluid", "equilibrium"];
/// All but the endpoints of others.
const OURS: &[&str] = &["sim", "fluid", "equilibrium"];
/// The simulator alone.
const SIM: &[&str] = &["sim"];

schedulers! {
    /// The path with the smallest smoothed RTT whose window has room.
    MinRtt = "min-rtt", repeats: false, on: ALL,
        source: "Paasch, Ferlin, Alay, Bonaventure, CSWS 2014";
    /// The paths in turn, as far as their windows have room.
    RoundRobin = "round-robin", repeats: false, on: OURS,
        source: "Paasch, Ferlin, Alay, Bonaventure, CSWS 2014";
    /// Linux 6.18's, for connections with several paths: a send buffer that grows with the windows,
    /// bursts of up to 64 kB that are queued at a path until its window has room, and
    /// retransmission of the oldest data over an idle path.
    Linux = "linux", repeats: true, on: ALL,
        source: "Linux 6.18, net/mptcp/protocol.c";
    /// As `min-rtt`, but a slower path waits if what the fastest path could send in the slower
    /// one's RTT would not fit into the receive window beside it.
    Blest = "blest", repeats: false, on: SIM,
        source: "Ferlin, Alay, Mehani, Boreli, IFIP Networking 2016";
    /// As `min-rtt`, but a slower path waits if all data would arrive earlier over the fastest path
    /// once that has room.
    Ecf = "ecf", repeats: false, on: SIM,
        source: "Lim, Nahum, Towsley, Gibbens, CoNEXT 2017, algorithm 1";
    /// All data on all paths: each path sends what is not acknowledged and what it has not sent.
    Redundant = "redundant", repeats: true, on: SIM,
        source: "Froemmgen, Erbshaeusser, Buchmann, Zimmermann, Wehrle, ICC 2016";
}

impl Scheduler {
    /// Why `backend` does not run scenarios with it: the key, the name and the remedy. `None` if it
    /// does.
    pub fn refusal(self, backend: &str) -> Option<String> {
        (!self.backends().contains(&backend))
            .then(|| refusal("tcp.scheduler", self.name(), backend, self.backends()))
    }
}
