//! Keys whose value is one of two kinds: a boolean or a word, a number or a word.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::number::Kappa;

/// Declares an enum that is false, true or a word in the file, in this order.
macro_rules! switches {
    ($(
        $(#[$doc:meta])* $name:ident {
            $(#[$off:meta])* $Off:ident, $(#[$on:meta])* $On:ident,
            $(#[$third:meta])* $Third:ident = $word:literal
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $(#[$off])* $Off, $(#[$on])* $On, $(#[$third])* $Third }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $name::$Off => serializer.serialize_bool(false),
                    $name::$On => serializer.serialize_bool(true),
                    $name::$Third => serializer.serialize_str($word),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                struct BooleanOrWord;

                impl Visitor<'_> for BooleanOrWord {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "true, false or {:?}", $word)
                    }

                    fn visit_bool<E>(self, on: bool) -> Result<$name, E> {
                        Ok(if on { $name::$On } else { $name::$Off })
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        match text {
                            $word => Ok($name::$Third),
                            _ => Err(E::custom(format!(
                                "expected true, false or {:?}, got {text:?}", $word
                            ))),
                        }
                    }
                }

                deserializer.deserialize_any(BooleanOrWord)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "enum": [true, false, $word] })
            }
        }
    )+};
}

switches! {
    /// Treatment of marks by endpoints: a boolean in the file, or how marks are echoed.
    Ecn {
        /// `false`: their packets are not ECN-capable.
        Off,
        /// `true`: acknowledgements say whether there were marks (RFC 3168).
        Classic,
        /// `"accurate"`: acknowledgements count the marked packets, as AccECN's do (RFC 9768).
        Accurate = "accurate"
    }

    /// The guard of a gateway's adjustment ([`anabranch_control::Guard`]).
    Guard {
        /// `false`: none.
        Off,
        /// `true`: by the arrival rate.
        Load,
        /// `"growth"`: by the growth of the buffer.
        Growth = "growth"
    }
}

impl Guard {
    /// The guard of the control rule.
    pub fn rule(self) -> anabranch_control::Guard {
        match self {
            Guard::Off => anabranch_control::Guard::Off,
            Guard::Load => anabranch_control::Guard::Load,
            Guard::Growth => anabranch_control::Guard::Growth,
        }
    }
}

const ACTIVE: &str = "active";

/// M of a gateway's adjustment: a number, or `"active"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxKappa {
    /// Always this.
    Packets(Kappa),
    /// The number of files in the gateway's buffer.
    Active,
}

impl Serialize for MaxKappa {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MaxKappa::Packets(packets) => packets.serialize(serializer),
            MaxKappa::Active => serializer.serialize_str(ACTIVE),
        }
    }
}

impl<'de> Deserialize<'de> for MaxKappa {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MaxKappa, D::Error> {
        struct NumberOrWord;

        fn packets<E: Error>(number: f64) -> Result<MaxKappa, E> {
            let packets = Kappa::try_from(number).map_err(E::custom)?;
            Ok(MaxKappa::Packets(packets))
        }

        impl Visitor<'_> for NumberOrWord {
            type Value = MaxKappa;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number or {ACTIVE:?}")
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<MaxKappa, E> {
                packets(number)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<MaxKappa, E> {
                packets(number as f64)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<MaxKappa, E> {
                packets(number as f64)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<MaxKappa, E> {
                match text {
                    ACTIVE => Ok(MaxKappa::Active),
                    _ => Err(E::custom(format!(
                        "expected a number or {ACTIVE:?}, got {text:?}"
                    ))),
                }
            }
        }

        deserializer.deserialize_any(NumberOrWord)
    }
}

impl JsonSchema for MaxKappa {
    fn schema_name() -> Cow<'static, str> {
        "MaxKappa".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [Kappa::json_schema(generator), { "const": ACTIVE }] })
    }
}
