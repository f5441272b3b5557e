//! Values that change at given times, and the times at which a link is down.

use crate::time::Time;

/// A function of time that is constant between given times: each value holds from its time on, the
/// last for ever, the first also before its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    steps: Vec<(Time, f64)>,
}

impl Steps {
    /// The function of these steps; equal values in a row become one step.
    ///
    /// # Panics
    /// If there is no step, or the times do not increase.
    pub fn new(steps: impl IntoIterator<Item = (Time, f64)>) -> Steps {
        let mut kept: Vec<(Time, f64)> = Vec::new();
        let mut last = None;
        for (time, value) in steps {
            assert!(last.is_none_or(|last| last < time), "times do not increase");
            last = Some(time);
            if kept.last().is_none_or(|&(_, before)| before != value) {
                kept.push((time, value));
            }
        }
        assert!(!kept.is_empty(), "no step");
        kept[0].0 = 0;
        Steps { steps: kept }
    }

    /// The value, if there is only one.
    pub fn constant(&self) -> Option<f64> {
        match self.steps.as_slice() {
            [(_, value)] => Some(*value),
            _ => None,
        }
    }

    /// The smallest value.
    pub fn smallest(&self) -> f64 {
        self.values().fold(f64::INFINITY, f64::min)
    }

    /// The values in their order.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.steps.iter().map(|&(_, value)| value)
    }

    /// The value at `time`.
    pub fn at(&self, time: Time) -> f64 {
        self.steps[self.place(time)].1
    }

    /// The mean after `from` and up to `to`.
    pub fn mean_between(&self, from: Time, to: Time) -> f64 {
        let (mut sum, mut at) = (0.0, from);
        while at < to {
            let (value, end) = self.piece(at);
            let end = end.min(to);
            sum += value * (end - at) as f64;
            at = end;
        }
        sum / (to - from) as f64
    }

    /// The mean up to the last change; the value, if there is none.
    pub fn mean(&self) -> f64 {
        match self.steps.last() {
            Some(&(last, _)) if last > 0 => self.mean_between(0, last),
            _ => self.steps[0].1,
        }
    }

    /// The function of the values that `convert` makes of these.
    pub fn map(&self, convert: impl Fn(f64) -> f64) -> Steps {
        Steps::new(
            self.steps
                .iter()
                .map(|&(time, value)| (time, convert(value))),
        )
    }

    /// The value at `time`, and until when it holds.
    pub(crate) fn piece(&self, time: Time) -> (f64, Time) {
        let place = self.place(time);
        let end = self.steps.get(place + 1).map_or(Time::MAX, |step| step.0);
        (self.steps[place].1, end)
    }

    fn place(&self, time: Time) -> usize {
        self.steps.partition_point(|&(from, _)| from <= time) - 1
    }
}

// The times at which a link is down.

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
