//! The times at which a link is down.

use crate::time::Time;

/// Disjoint, increasing intervals `[from, to)`; a cursor follows the current time.
#[derive(Clone, Debug)]
pub(crate) struct Outages {
    later: std::vec::IntoIter<(Time, Time)>,
    /// The first interval that is not over; `(Time::MAX, Time::MAX)` if none is left.
    from: Time,
    to: Time,
}

impl Outages {
    /// # Panics
    /// If an interval is empty, or the intervals overlap or are not in increasing order.
    pub(crate) fn new(intervals: Vec<(Time, Time)>) -> Outages {
        assert!(
            intervals.iter().all(|&(from, to)| from < to),
            "a down interval is empty"
        );
        assert!(
            intervals.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "down intervals overlap or are out of order"
        );
        let mut outages = Outages {
            later: intervals.into_iter(),
            from: 0,
            to: 0,
        };
        outages.skip_to(0);
        outages
    }

    /// Whether the link is down at `now`, which never decreases.
    pub(crate) fn down_at(&mut self, now: Time) -> bool {
        now >= self.from && self.skip_to(now)
    }

    /// When the link next goes down: packets not transmitted by then are lost.
    pub(crate) fn next(&self) -> Time {
        self.from
    }

    #[cold]
    fn skip_to(&mut self, now: Time) -> bool {
        while now >= self.to {
            (self.from, self.to) = self.later.next().unwrap_or((Time::MAX, Time::MAX));
        }
        now >= self.from
    }
}
