//! Numbers with a range, which is checked when a file is read and is in its schema.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Above this, a whole number is not exact in the file's floating point.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0; // 2^53

/// Declares a number type: its meaning, inner type, range check and schema.
macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident($inner:ty), $check:expr, $schema:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64")]
        pub struct $name($inner);

        impl $name {
            /// The plain number.
            pub const fn get(self) -> $inner {
                self.0
            }

            /// A constant of this crate, without a range check.
            #[allow(dead_code, reason = "not every type has constants")]
            pub(crate) const fn constant(x: $inner) -> Self {
                $name(x)
            }
        }

        impl TryFrom<f64> for $name {
            type Error = String;

            fn try_from(x: f64) -> Result<Self, String> {
                let check: fn(f64) -> Result<(), String> = $check;
                check(x).map(|()| $name(x as $inner))
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

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let schema: fn(&mut SchemaGenerator) -> Schema = $schema;
                schema(generator)
            }
        }
    };
}

/// Declares a number type whose range is in words.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $expected:literal, $schema:tt, $holds:expr) => {
        number_type! {
            $(#[$doc])* $name($inner),
            |x| {
                let holds: fn(f64) -> bool = $holds;
                if holds(x) { Ok(()) } else { Err(format!("expected {}, got {x}", $expected)) }
            },
            |_| json_schema!($schema)
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

/// Declares number types with both ends of their range: what each is, the type that holds any such
/// number, the ends and their unit.
macro_rules! bounded {
    ($(
        $(#[$doc:meta])*
        $name:ident: $Number:ident($inner:ty), $min:literal to $max:literal $unit:literal;
    )+) => {$(
        number_type! {
            $(#[$doc])* $name($inner),
            |x| within(x, $min, $max, $unit, $Number::try_from(x).err()),
            |generator| schema_within($Number::json_schema(generator), $min, $max)
        }
    )+};
}

/// Checks the ends of a key. Its inner type says what is `wrong` otherwise, but [`Count`] has ends
/// of its own, which are not those of the key.
fn within(x: f64, min: f64, max: f64, unit: &str, wrong: Option<String>) -> Result<(), String> {
    match wrong {
        Some(said) if !said.contains("whole number") => Err(said),
        _ if !(min..=max).contains(&x) => Err(format!("expected {min} to {max} {unit}, got {x}")),
        Some(_) => Err(format!(
            "expected a whole number, {min} to {max} {unit}, got {x}"
        )),
        None => Ok(()),
    }
}

fn schema_within(mut schema: Schema, min: f64, max: f64) -> Schema {
    if min > 0.0 {
        schema.insert("minimum".to_owned(), min.into());
    }
    schema.insert("maximum".to_owned(), max.into());
    schema
}

// Virtual time, picoseconds in 64 bits, limits times and rates.
bounded! {
    /// A rate, Mbps.
    RateMbps: Positive(f64), 0.001 to 1e6 "Mbps";
    /// Files per second.
    RatePerS: Positive(f64), 0.000001 to 1e6 "per s";
    /// A delay, ms.
    DelayMs: NonNegative(f64), 0.0 to 1e6 "ms";
    /// A delay that is one, ms.
    LaterMs: Positive(f64), 0.001 to 1e6 "ms";
    /// How often a link sends a packet again.
    Retries: Count(u32), 1.0 to 100.0 "retries";
    /// A host's delay of a packet, us.
    JitterUs: NonNegative(f64), 0.0 to 1e6 "us";
    /// A timeout, ms.
    TimeoutMs: Positive(f64), 0.001 to 1e9 "ms";
    /// A time after the start of a run, s.
    TimeS: NonNegative(f64), 0.0 to 1e7 "s";
    /// The end of a run or of a flow, s after the start of the run.
    EndS: Positive(f64), 0.0 to 1e7 "s";
    /// The length of a period, s.
    PeriodS: Positive(f64), 0.000001 to 1e7 "s";
    /// Frames of media per second.
    FramesPerS: Positive(f64), 0.1 to 1000.0 "per s";
    /// The age of a frame at which it is late, ms.
    LateMs: Positive(f64), 0.001 to 1e6 "ms";
    /// The time between two rows of samples, ms.
    SampleMs: Positive(f64), 0.001 to 1e10 "ms";
    /// The mean size of files, bytes.
    MeanBytes: Positive(f64), 1.0 to 1e15 "bytes";
    /// The size of a packet, bytes.
    PacketBytes: Count(u32), 1.0 to 65535.0 "bytes";
    /// A number of queues to which flows are hashed.
    Flows: Count(u32), 1.0 to 65536.0 "queues";
    /// The standard deviation of a logarithm.
    Sigma: Positive(f64), 0.01 to 5.0 "as sigma";
    /// The shape of a Weibull distribution.
    WeibullShape: Positive(f64), 0.1 to 100.0 "as shape";
    /// A number of samples to which a slope can be fitted.
    Samples: Count(u32), 2.0 to 1e6 "samples";
    /// The weight of a connection that stands for several, packets.
    Kappa: Positive(f64), 1.0 to 1e6 "packets";
}

/// As most video.
impl Default for FramesPerS {
    fn default() -> Self {
        FramesPerS::constant(30.0)
    }
}

/// The delay, mouth to ear, up to which most users of a conversation are very satisfied (ITU-T
/// G.114).
impl Default for LateMs {
    fn default() -> Self {
        LateMs::constant(200.0)
    }
}
