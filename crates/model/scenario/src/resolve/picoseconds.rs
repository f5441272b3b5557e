//! Times as written to picoseconds.

use anabranch_net::Time;

/// A time of `x` units of `unit` picoseconds.
pub(super) fn picoseconds(x: f64, unit: Time) -> Time {
    (x * unit as f64).round() as Time
}
