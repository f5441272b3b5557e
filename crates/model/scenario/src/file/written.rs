//! The scenario file as written: serde reads it, the schema describes it, and
//! [`Scenario::to_toml`](crate::Scenario::to_toml) writes it. `resolve` turns it into a
//! [`Scenario`](crate::Scenario), in which nothing with a default is optional.

use std::borrow::Cow;
use std::fmt;

use anabranch_control::RULES;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::flows::Workload;
use crate::model::measure::Measure;
use crate::model::number::{Count, DelayMs, EndS, PacketBytes, TimeS};

pub use crate::file::link::{Arq, Link, Loss, Outage, Reorder};
pub use crate::file::queue::{Codel, DualPi2, FqCodel, Pie, Policer, Queue, Red};
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
