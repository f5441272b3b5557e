//! Time: integer picoseconds for runs, seconds for rules and people.

/// A point in time or a duration, in picoseconds. 64 bits last for 213 days.
pub type Time = u64;

/// One millisecond.
pub const MILLISECOND: Time = 1_000_000_000;

/// One second.
pub const SECOND: Time = 1_000_000_000_000;

/// A time or duration in seconds.
#[inline]
pub fn seconds(time: Time) -> f64 {
    time as f64 * 1e-12
}

/// A non-negative duration in picoseconds, rounded to nearest; saturates.
#[inline]
pub const fn from_seconds(seconds: f64) -> Time {
    (seconds * 1e12 + 0.5) as Time
}
