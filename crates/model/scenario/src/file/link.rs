//! A link as written in the file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::queue::Queue;
use crate::model::number::{
    Count, DelayMs, LaterMs, NonNegative, Probability, RateMbps, Retries, TimeS,
};

/// A link, one way. Give `rate_mbps` or `trace_file`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Rate, Mbps (10^6 bits per second, headers included).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<RateMbps>,
    /// A trace, relative to the scenario file. In mahimahi's format, one line per opportunity to
    /// deliver 1500 bytes, its time in ms; the trace repeats after its last time. Or a CSV file
    /// with the column `time_s` and some of `rate_mbps`, `delay_ms`, which is added to the link's,
    /// and `loss`, a probability: each line holds until the next, the last for ever
    /// (docs/reference/traces.md).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_file: Option<String>,
    /// Propagation, one way, ms.
    pub delay_ms: DelayMs,
    /// The queue. Without it: drop-tail that holds 100 ms at the link's rate, at least 10 packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Random loss on the wire.
    #[serde(default)]
    pub loss: Loss,
    /// Retransmissions by the link of what `loss`, or the column `loss` of its trace, loses
    /// (docs/reference/traces.md). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arq: Option<Arq>,
    /// Jitter, ms: each packet is delayed by a further time, random and uniform from 0 to this.
    /// Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<DelayMs>,
    /// Whether packets wait for those before them that are delayed more, by jitter, retransmissions
    /// or a trace; if false, they overtake them. Default: true.
    #[serde(default = "in_order", skip_serializing_if = "is_true")]
    pub keeps_order: bool,
    /// Packets displaced at random (docs/reference/traces.md). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// When the link is down: intervals in order that do not overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<Outage>,
}

fn in_order() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

/// Retransmissions by a link of what its wire loses (RFC 3366). They take nothing of its rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arq {
    /// How often a packet is sent again before it is lost. Each time may be lost, as the first.
    pub retries: Retries,
    /// Addition of each retransmission to the packet's delay, ms.
    pub delay_ms: DelayMs,
}

/// Packets displaced at random. Give `packets` or `by_ms`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Probability that a packet is displaced.
    pub share: Probability,
    /// How many packets overtake it: it arrives immediately behind the last of the next `packets`
    /// that get through and are not displaced themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Count>,
    /// With `packets`: after this much more delay it arrives although fewer have overtaken it, ms.
    /// Default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_ms: Option<LaterMs>,
    /// How much later it arrives, ms; no packet waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_ms: Option<LaterMs>,
}

/// Random loss on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Each packet is lost with the same probability.
    Bernoulli {
        /// Probability that a packet is lost.
        probability: Probability,
    },
    /// Losses in bursts: a chain of two states that steps at each packet (Gilbert 1960, Elliott
    /// 1963).
    GilbertElliott {
        /// Probability to step from good to bad.
        good_to_bad: Probability,
        /// Probability to step from bad to good.
        bad_to_good: Probability,
        /// Probability that a packet is lost in the good state.
        #[serde(default = "never")]
        loss_good: Probability,
        /// Probability that a packet is lost in the bad state.
        #[serde(default = "always")]
        loss_bad: Probability,
    },
}

fn never() -> Probability {
    Probability::constant(0.0)
}

fn always() -> Probability {
    Probability::constant(1.0)
}

/// An outage: packets not transmitted before it begins are lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Down from here, s.
    pub from_s: NonNegative,
    /// Up again here, s. After `from_s`.
    pub to_s: TimeS,
}
