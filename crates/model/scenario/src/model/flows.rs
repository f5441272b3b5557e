//! Flows: users, their paths, their algorithm, and what they send.

use anabranch_control::Algorithm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::adjust::Adjust;
use crate::model::media::Media;
use crate::model::messages::Messages;
use crate::model::number::{Bytes, Count, DelayMs, EndS, PacketBytes, PeriodS, RatePerS, TimeS};
use crate::model::size::Size;

/// A group of identical users.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Name in the file and in the tables of a result.
    pub name: String,
    /// Number of users.
    pub count: Count,
    /// The paths each user sends on; at least one.
    pub paths: Vec<Path>,
    /// The congestion-control algorithm.
    pub algorithm: Algorithm,
    /// Size of its full data packets on the wire, headers included, bytes.
    pub packet_bytes: PacketBytes,
    /// Data that each user sends.
    pub workload: Workload,
    /// The earliest start, s.
    pub start_s: TimeS,
    /// Each user starts at a uniformly random time within this many seconds after `start_s`.
    pub start_spread_s: TimeS,
    /// When every user stops, s; `None`: at the end of the run.
    pub stop_s: Option<EndS>,
}

/// One path from sender to receiver and back.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The links in order, as indexes into [`Scenario::links`](crate::Scenario::links).
    pub links: Vec<usize>,
    /// The links that bring ACKs back, in order: ACKs queue there and are lost there. None: ACKs
    /// return after a pure delay, never queue and are never lost.
    pub back: Vec<usize>,
    /// The pure delay, or the propagation delay of the links of `back`, ms.
    pub return_delay_ms: DelayMs,
    /// Time at which it opens, s, or with its user if that starts later. At most the flow's
    /// `start_s` for the first path, and for each path at least the time of the one before it.
    pub start_s: TimeS,
}

/// Data that a user sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Workload {
    /// Data without limit.
    #[default]
    Bulk,
    /// One file.
    File {
        /// Size, bytes of payload.
        bytes: Bytes,
    },
    /// Data without limit and silence, in alternating periods.
    OnOff {
        /// Length of a sending period, s.
        on_s: PeriodS,
        /// Length of a silent period, s.
        off_s: PeriodS,
    },
    /// Files that arrive as a Poisson process, each on a new connection.
    Poisson {
        /// Files per second.
        rate_per_s: RatePerS,
        /// Sizes of the files.
        size: Size,
    },
    /// The files of several clients, pooled in a gateway between them and the network: one
    /// persistent connection carries a packet of each file in turn. A file arrives at the gateway
    /// whole and at once: the links to the clients are assumed to be faster than the network.
    Gateway {
        /// Clients of each gateway; the files of each arrive as a Poisson process.
        clients: Count,
        /// Files per second of one client.
        rate_per_s: RatePerS,
        /// Sizes of the files.
        size: Size,
        /// How the weight of the connection follows the gateway's buffer; requires `vegas` over
        /// one path. Default: the weight is fixed.
        #[serde(skip_serializing_if = "Option::is_none")]
        adjust: Option<Adjust>,
    },
    /// Messages of known sizes at known times on one persistent connection, such as requests,
    /// measurements or packets of speech: a message begins a packet of its own, and waits for those
    /// before it.
    Messages(Messages),
    /// Media as datagrams over one path: frames at equal times, of a constant rate or of one that
    /// follows delay and losses (`docs/reference/workloads.md`). The flow's algorithm has no
    /// effect.
    Media(Media),
}
