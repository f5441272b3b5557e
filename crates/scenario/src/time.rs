//! Integer picoseconds for runs, seconds for rules and people.

use anabranch_net::Time;

/// Picoseconds in a second.
pub const SECOND: Time = 1_000_000_000_000;

/// A time or duration in seconds.
#[inline]
pub fn seconds(time: Time) -> f64 {
    time as f64 * 1e-12
}

/// A non-negative duration in picoseconds, to the nearest one; beyond the range, the end of it.
#[inline]
pub const fn from_seconds(seconds: f64) -> Time {
    (seconds * 1e12 + 0.5) as Time
}
