//! Choices of the endpoints' keys.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    /// scheduler, receive buffers of 6 MB (`rmem_max_bytes`), and a host that is not a clock:
    /// `host_jitter_us = 100`.
    Linux,
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

/// Treatment of marks by endpoints: a boolean in the file, or how marks are echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// `false`: their packets are not ECN-capable.
    Off,
    /// `true`: acknowledgements say whether there were marks (RFC 3168).
    Classic,
    /// `"accurate"`: acknowledgements count the marked packets, as AccECN's do (RFC 9768).
    Accurate,
}

const ACCURATE: &str = "accurate";

impl Serialize for Ecn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ecn::Off => serializer.serialize_bool(false),
            Ecn::Classic => serializer.serialize_bool(true),
            Ecn::Accurate => serializer.serialize_str(ACCURATE),
        }
    }
}

impl<'de> Deserialize<'de> for Ecn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ecn, D::Error> {
        struct BooleanOrEcho;

        impl Visitor<'_> for BooleanOrEcho {
            type Value = Ecn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "true, false or {ACCURATE:?}")
            }

            fn visit_bool<E>(self, on: bool) -> Result<Ecn, E> {
                Ok(if on { Ecn::Classic } else { Ecn::Off })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Ecn, E> {
                match text {
                    ACCURATE => Ok(Ecn::Accurate),
                    _ => Err(E::custom(format!(
                        "expected true, false or {ACCURATE:?}, got {text:?}"
                    ))),
                }
            }
        }

        deserializer.deserialize_any(BooleanOrEcho)
    }
}

impl JsonSchema for Ecn {
    fn schema_name() -> Cow<'static, str> {
        "Ecn".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [true, false, ACCURATE] })
    }
}
