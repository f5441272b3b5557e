//! An event of a calendar.

use std::cmp::Ordering;

use crate::time::Time;

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
