//! Paths share a bottleneck if their delays change together.
//!
//! Packets of two paths that wait in the same queue meet the same waiting times. Over intervals of
//! [`INTERVAL`], the mean delay of one path then rises when that of the other does. The correlation
//! of these *changes* is computed for each pair of paths. Changes, not the delays themselves: the
//! queues of two bottlenecks fill and drain over many seconds, so that their delays correlate by
//! chance, but their changes do not. RFC 8382 compares statistics of each path instead, because its
//! paths may end at different hosts, whose clocks differ; here all are observed by one sender.

use alloc::vec::Vec;

use super::{Intervals, divide, one_group};

/// The delays of an interval are averaged, s. Longer than the RTTs of most paths, so that each has
/// samples and the paths' different distances from the bottleneck matter little.
const INTERVAL: f64 = 0.2;

/// Weight of the newest change: the correlation is over about `1 / GAIN` intervals, 10 s.
const GAIN: f64 = 1.0 / 50.0;

/// Changes that a decision needs, 3 s of them. Without any correlation the estimate's standard
/// deviation is then 0.26.
const CHANGES: u32 = 15;

/// A pair shares a bottleneck if its correlation exceeds this,
const TOGETHER: f64 = 0.45;

/// and does not if it is below this. Between both, the last decision holds.
const APART: f64 = 0.25;

/// A path whose delay changes by less than this (s, root mean square) has no bottleneck.
const SMALLEST_CHANGE: f64 = 10e-6;

/// The detector; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Correlation {
    intervals: Intervals,
    delays: Vec<Delays>,
    /// Paths i < j at place `j (j - 1) / 2 + i`, so that a new path's pairs come last.
    pairs: Vec<Pair>,
}

/// The delays of a path in the current interval.
#[derive(Clone, Copy, Debug, Default)]
struct Delays {
    sum: f64,
    count: u32,
}

/// How the delays of two paths change together.
#[derive(Clone, Debug)]
struct Pair {
    /// The mean delays of the last interval in which both had any.
    last: Option<[f64; 2]>,
    changes: u32,
    /// Means of the squared changes, s^2, and of the product of both.
    squares: [f64; 2],
    product: f64,
    /// Coupled until shown to be separate: while it is unknown, the paths together take no more
    /// than one connection would.
    shared: bool,
}

impl Default for Correlation {
    fn default() -> Self {
        Correlation {
            intervals: Intervals::new(INTERVAL),
            delays: Vec::new(),
            pairs: Vec::new(),
        }
    }
}

impl Correlation {
    pub fn add_path(&mut self) {
        let pairs = core::iter::repeat_n(Pair::new(), self.delays.len());
        self.pairs.extend(pairs);
        self.delays.push(Delays::default());
    }

    /// As [`Detector::on_delay`](super::Detector::on_delay).
    pub fn on_delay(&mut self, r: usize, now: f64, delay: f64) -> Option<Vec<usize>> {
        let decided = self.intervals.ends(now).then(|| self.decide());
        let path = &mut self.delays[r];
        path.sum += delay;
        path.count += 1;
        decided
    }

    /// Ends the interval.
    fn decide(&mut self) -> Vec<usize> {
        let paths = self.delays.len();
        for j in 1..paths {
            for i in 0..j {
                if let (Some(a), Some(b)) = (self.delays[i].mean(), self.delays[j].mean()) {
                    self.pairs[place(i, j)].add([a, b]);
                }
            }
        }
        self.delays.fill(Delays::default());
        let mut groups = one_group(paths);
        divide(&mut groups, |i, j| self.pairs[place(i, j)].shared);
        groups
    }
}

/// The place of the paths i < j among the pairs.
fn place(i: usize, j: usize) -> usize {
    j * (j - 1) / 2 + i
}

impl Delays {
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

impl Pair {
    fn new() -> Pair {
        Pair {
            last: None,
            changes: 0,
            squares: [0.0; 2],
            product: 0.0,
            shared: true,
        }
    }

    /// Adds an interval with these mean delays.
    fn add(&mut self, means: [f64; 2]) {
        let Some(last) = self.last.replace(means) else {
            return;
        };
        self.changes += 1;
        let (a, b) = (means[0] - last[0], means[1] - last[1]);
        // The plain mean of the first changes.
        let gain = GAIN.max(1.0 / f64::from(self.changes));
        self.squares[0] += gain * (a * a - self.squares[0]);
        self.squares[1] += gain * (b * b - self.squares[1]);
        self.product += gain * (a * b - self.product);
        if self.changes >= CHANGES {
            self.shared = self.exceeds(if self.shared { APART } else { TOGETHER });
        }
    }

    /// Whether the correlation, `product / sqrt(squares[0] squares[1])`, exceeds `threshold`.
    fn exceeds(&self, threshold: f64) -> bool {
        let [a, b] = self.squares;
        let moves = a.min(b) > SMALLEST_CHANGE * SMALLEST_CHANGE;
        moves && self.product > 0.0 && self.product * self.product > threshold * threshold * a * b
    }
}
