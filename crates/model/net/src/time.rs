//! Time: integer picoseconds for runs, seconds for rules and people; and an event of a calendar.

use std::cmp::Ordering;

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

// An event of a calendar.

/// An event and when it happens. The order is that of a
/// [`BinaryHeap`](std::collections::BinaryHeap) with the next event on top: the earliest is the
/// largest.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<E> {
    /// When it happens.
    pub time: Time,
    /// Breaks ties: of two events at the same time, the one scheduled first comes first.
    pub order: u64,
    /// The event itself.
    pub event: E,
}

impl<E> Ord for Scheduled<E> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}

impl<E> PartialOrd for Scheduled<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Scheduled<E> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Scheduled<E> {}
