//! The scenario file as written: serde reads it, the schema describes it, and
//! [`Scenario::to_toml`](crate::Scenario::to_toml) writes it. `resolve` turns it into a
//! [`Scenario`](crate::Scenario), in which nothing with a default is optional.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use anabranch_control::RULES;
use indexmap::IndexMap;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::model::flows::Workload;
use crate::model::links::Measure;
use crate::model::number::{
    Bytes, Count, DelayMs, EndS, Flows, LaterMs, NonNegative, PacketBytes, Positive, Probability,
    RateMbps, Retries, TimeS, TimeoutMs,
};
use crate::model::tcp;

/// An Anabranch scenario: links, flows, algorithms, workloads, seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario in results and reports.
    #[serde(default)]
    pub name: String,
    /// Purpose of the scenario, in a sentence or two.
    #[serde(default)]
    pub description: String,
    /// The algorithm of flows without one of their own: a name, or a name with parameters such as
    /// `balia:cap=inf`. `--algorithm` replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = algorithms)]
    pub algorithm: Option<String>,
    /// One run per seed; the same seed gives the same bits on every machine.
    #[serde(default = "one_seed")]
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub seeds: Vec<u64>,
    /// Measured quantities, and the duration of the run.
    pub measure: Measure,
    /// How endpoints behave.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub tcp: tcp::Written,
    /// The links by name.
    #[schemars(extend("minProperties" = 1))]
    pub links: IndexMap<String, Link>,
    /// The groups of users.
    #[schemars(length(min = 1))]
    pub flows: Vec<Flow>,
}

/// Lists the algorithms as examples, not as choices: parameters may follow (`balia:cap=inf`).
fn algorithms(schema: &mut Schema) {
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    schema.insert("examples".to_owned(), names.into());
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

/// A group of identical users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name in the tables of a result.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Number of users.
    #[serde(default = "one_user")]
    pub count: Count,
    /// The paths each user sends on.
    #[schemars(length(min = 1))]
    pub paths: Vec<Path>,
    /// The algorithm of these users; `--algorithm` does not replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = algorithms)]
    pub algorithm: Option<String>,
    /// Parameters of that algorithm; `anabranch list` shows them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub parameters: IndexMap<String, f64>,
    /// Size of the flow's full data packets on the wire, headers included, bytes. Default:
    /// `tcp.packet_bytes`. `sim` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<PacketBytes>,
    /// Data that each user sends.
    #[serde(default)]
    pub workload: Workload,
    /// The earliest start, s.
    #[serde(default = "at_once")]
    pub start_s: TimeS,
    /// Each user starts at a uniformly random time within this many seconds after `start_s`.
    /// Default: four RTTs of the first path with empty queues, at most a tenth of the time that the
    /// flow has; 0 if files arrive at random (`poisson`, `gateway`). Write 0 to start all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_spread_s: Option<TimeS>,
    /// When every user stops, s. Default: at the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<EndS>,
}

fn one_user() -> Count {
    Count::constant(1)
}

fn at_once() -> TimeS {
    TimeS::constant(0.0)
}

/// A path: a list of links, or a table with further properties.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Path {
    /// The links in order; ACKs return after the propagation delay of the links.
    Links(Vec<String>),
    /// The links in order, the way back, and when the path opens.
    Full(FullPath),
}

/// A path with its own way back or start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullPath {
    /// The links in order.
    pub links: Vec<String>,
    /// ACKs return after this pure delay, ms. Default: the propagation delay of the links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_delay_ms: Option<DelayMs>,
    /// The links that bring ACKs back, in order, instead of a pure delay: ACKs queue there beside
    /// the data of other flows, and are lost there. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub back: Vec<String>,
    /// When it opens, s from the start of the run, or with its user if that starts later. The first
    /// path opens with the user, the others in order. Default: with the user.
    #[serde(default = "at_once")]
    pub start_s: TimeS,
}

/// Implemented by hand: a derived untagged enum discards the error within the variant.
impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListOrTable;

        impl<'de> Visitor<'de> for ListOrTable {
            type Value = Path;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of links")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Path, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(Path::Links)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Path, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Path::Full)
            }
        }

        deserializer.deserialize_any(ListOrTable)
    }
}

impl JsonSchema for Path {
    fn schema_name() -> Cow<'static, str> {
        "Path".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A path: a list of links, or a table with further properties.",
            "anyOf": [
                generator.subschema_for::<Vec<String>>(),
                generator.subschema_for::<FullPath>(),
            ],
        })
    }
}

// A link as written in the file.

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
    /// Every `packets`-th packet is lost: the deterministic loss of response functions (RFC 9438,
    /// section 5).
    Periodic {
        /// The distance from one loss to the next, packets.
        packets: Count,
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

// A link's queue as written in the file.

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
    /// Space drops by count: at a probability p they are 1 to 1/p packets apart, each distance as
    /// likely (Floyd and Jacobson 1993, section 7), which drops a share 2p/(1 + p). Default: false,
    /// each packet independently, a share p.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uniform: Option<bool>,
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

// The JSON Schema of a scenario file, for editors and for programs that write scenarios.

/// The JSON Schema (draft 2020-12) of a scenario file, generated from the types that read it.
pub fn schema() -> String {
    serde_json::to_string_pretty(tree()).expect("a schema is plain JSON")
}

/// The same as a tree.
pub(crate) fn tree() -> &'static Value {
    static TREE: LazyLock<Value> = LazyLock::new(generate);
    &TREE
}

fn generate() -> Value {
    let generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    let mut schema = generator.into_root_schema_for::<Scenario>();
    RecursiveTransform(without_null).transform(&mut schema);
    schema.into()
}

/// Removes null from the types of optional keys: TOML has no null.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                schema.insert(key, value);
            }
        }
    }
}
