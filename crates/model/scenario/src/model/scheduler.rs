//! The schedulers of Multipath TCP, one after the other. The key `tcp.scheduler`, its JSON Schema,
//! the errors of backends that lack one, the laws and the table of
//! docs/reference/schedulers.md are made from this table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::refusal;

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
