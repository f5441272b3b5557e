//! A link's queue as written in the file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::number::{
    Bytes, Count, DelayMs, Flows, Positive, Probability, RateMbps, TimeoutMs,
};

/// The queue of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Queue {
    /// First in, first out; packets that do not fit are dropped. Give `packets`, `bytes` or both.
    DropTail {
        /// Maximum number of waiting packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets: Option<Count>,
        /// Maximum number of waiting bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
    },
    /// Random early detection; `queue.red = {}` is the OLIA draft's.
    Red(Red),
    /// CoDel (RFC 8289), which holds the delay of the queue at a target by drops at its head;
    /// `queue.codel = {}` has the RFC's values.
    Codel(Codel),
    /// FQ-CoDel (RFC 8290): flows take turns, each with a CoDel of its own.
    FqCodel(FqCodel),
    /// PIE (RFC 8033), which holds the delay of the queue at a target by random drops on arrival.
    Pie(Pie),
    /// DualPI2 (RFC 9332): a queue of low delay for scalable flows, such as `dctcp` with
    /// `tcp.ecn = "accurate"`, beside a classic one, whose marks are coupled.
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2),
    /// A policer: packets that exceed a token bucket are dropped, the others wait without limit.
    Policer(Policer),
}

/// Random early detection: drop probability 0 up to `min_packets`, linear to `mid_probability` at
/// `mid_packets`, linear to 1 at `max_packets`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// No packet is dropped below this queue length, packets. Default 25 per 10 Mbps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_packets: Option<Positive>,
    /// The knee, packets. Default 50 per 10 Mbps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mid_packets: Option<Positive>,
    /// Every packet is dropped from this queue length on, packets. Default 100 per 10 Mbps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_packets: Option<Positive>,
    /// Drop probability at the knee. Default 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mid_probability: Option<Probability>,
    /// Weight of a new sample in the averaged queue, such as 0.002. Without it the
    /// instantaneous queue is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub average_weight: Option<Probability>,
    /// Maximum number of waiting packets, for any average. Default `max_packets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<Count>,
    /// Mark ECN-capable packets (`tcp.ecn`) instead of dropping them, below `max_packets`. Default:
    /// true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
}

/// CoDel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// Acceptable delay of a standing queue, ms. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ms: Option<TimeoutMs>,
    /// How long the delay must stay above the target before the first drop, ms. Default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<TimeoutMs>,
    /// Maximum number of waiting packets. Default: 1000, as in Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<Count>,
    /// Mark ECN-capable packets (`tcp.ecn`) instead of dropping them. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
}

/// FQ-CoDel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FqCodel {
    /// Acceptable delay of a standing queue, ms. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ms: Option<TimeoutMs>,
    /// How long the delay must stay above the target before the first drop, ms. Default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<TimeoutMs>,
    /// Bytes that a flow sends in its turn. Default: 1514.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum_bytes: Option<Count>,
    /// Number of queues. Each path of a connection is a flow, hashed to one of them. Default: 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
    /// Maximum number of packets that wait in all queues; beyond it the longest queue loses its
    /// oldest packets. Default: 10240.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<Count>,
    /// Mark ECN-capable packets (`tcp.ecn`) instead of dropping them. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
}

/// PIE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pie {
    /// The delay that it aims at, ms. Default: 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ms: Option<TimeoutMs>,
    /// Time between two updates of the drop probability, ms. Default: 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tupdate_ms: Option<TimeoutMs>,
    /// Weight of the delay's distance from the target, per s. Default: 0.125.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<Positive>,
    /// Weight of the delay's change since the last update, per s. Default: 1.25.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<Positive>,
    /// How long a burst passes undropped when the queue was short before, ms. Default: 150.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_burst_ms: Option<DelayMs>,
    /// Maximum number of waiting packets. Default: 1000, as in Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<Count>,
    /// Space drops and marks evenly (RFC 8033, section 5.4), as Linux does. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derandomize: Option<bool>,
    /// Mark ECN-capable packets (`tcp.ecn`) instead of dropping them while the drop probability is
    /// at most 0.1. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
}

/// DualPI2. Packets of scalable rules (ECT(1)) and marked ones wait in the queue of low delay, the
/// L queue, all others in the classic one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DualPi2 {
    /// The delay of the classic queue that it aims at, ms. Default: 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ms: Option<TimeoutMs>,
    /// Time between two updates of the base probability, ms. Default: 16, as in Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tupdate_ms: Option<TimeoutMs>,
    /// Weight of the delay's distance from the target, per s. Default: 0.16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<Positive>,
    /// Weight of the delay's change since the last update, per s. Default: 3.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<Positive>,
    /// The factor k: of the base probability p', k p' marks the L queue, p'^2 the classic one.
    /// Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupling: Option<Positive>,
    /// The delay above which all packets of the L queue are marked, ms. Default: 1, as in Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_ms: Option<TimeoutMs>,
    /// The share of the capacity that the classic queue has at least. Default: 0.1, as in Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classic_share: Option<Probability>,
    /// Maximum number of packets that wait in both queues. Default: 10000, as in Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<Count>,
}

/// A policer: a token bucket, full at first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// Rate at which tokens arrive, Mbps (10^6 bits per second, headers included).
    pub rate_mbps: RateMbps,
    /// The most tokens, bytes: what passes at once after a pause. At least a packet.
    pub burst_bytes: Count,
}
