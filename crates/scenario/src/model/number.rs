//! Numbers with a range, which is checked when a file is read.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Above this, a whole number is not exact in the file's floating point.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0; // 2^53

/// Declares a number type: its meaning, inner type, text for errors, schema and range check.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $expected:literal, $schema:tt, $holds:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64")]
        pub struct $name($inner);

        impl $name {
            /// The plain number.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = String;

            fn try_from(x: f64) -> Result<Self, String> {
                let holds: fn(f64) -> bool = $holds;
                if holds(x) { Ok($name(x as $inner)) } else { Err(format!("expected {}, got {x}", $expected)) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
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
                json_schema!($schema)
            }
        }
    };
}

number! {
    /// A finite number above 0.
    Positive(f64), "a number above 0",
    { "type": "number", "exclusiveMinimum": 0 },
    |x| x.is_finite() && x > 0.0
}

number! {
    /// A number above 0, or infinity for "no limit".
    PositiveOrInfinite(f64), "a number above 0, or inf",
    { "type": "number", "exclusiveMinimum": 0 },
    |x| x > 0.0
}

number! {
    /// A finite number of at least 0.
    NonNegative(f64), "a number of at least 0",
    { "type": "number", "minimum": 0 },
    |x| x.is_finite() && x >= 0.0
}

number! {
    /// A finite number above 1: the shape of a Pareto distribution that has a mean.
    AboveOne(f64), "a number above 1",
    { "type": "number", "exclusiveMinimum": 1 },
    |x| x.is_finite() && x > 1.0
}

number! {
    /// A probability.
    Probability(f64), "a probability from 0 to 1",
    { "type": "number", "minimum": 0, "maximum": 1 },
    |x| (0.0..=1.0).contains(&x)
}

number! {
    /// A whole number of things, at least 1. `1e3` is allowed for `1000`.
    Count(u32), "a whole number from 1 to 4294967295",
    { "type": "number", "multipleOf": 1, "minimum": 1, "maximum": 4_294_967_295u32 },
    |x| (1.0..=f64::from(u32::MAX)).contains(&x) && x.fract() == 0.0
}

number! {
    /// A whole number of bytes, at least 1. `1e6` is allowed for `1000000`.
    Bytes(u64), "a whole number of bytes, at least 1",
    { "type": "number", "multipleOf": 1, "minimum": 1 },
    |x| (1.0..=LARGEST_EXACT).contains(&x) && x.fract() == 0.0
}

/// A constructor for constants of this crate, without a range check.
macro_rules! constant {
    ($name:ident, $inner:ty) => {
        impl $name {
            pub(crate) const fn constant(x: $inner) -> Self {
                $name(x)
            }
        }
    };
}

constant!(Positive, f64);
constant!(PositiveOrInfinite, f64);
constant!(NonNegative, f64);
constant!(Probability, f64);
constant!(Count, u32);
