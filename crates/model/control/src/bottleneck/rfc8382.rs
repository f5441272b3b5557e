//! An approximation of RFC 8382: paths with the same statistics of delay share a bottleneck.
//! Thresholds are of a kernel implementation of MPTCP-SBD (docs/reference/rules.md).
//!
//! Sections refer to the RFC. Every statistic is computed over whole base intervals of
//! [`T`]; an interval without a packet is skipped. Section 4's lag reduction (the weights of
//! [`weight`]) is included, its removal of oscillation noise is not: the kernel implementation of
//! MPTCP-SBD (Ferlin and others, INFOCOM 2016) leaves it out too.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{divide, one_group};

/// Base interval, s (section 2.3).
const T: f64 = 0.35;
/// Intervals of the oscillation estimate and of the loss (section 2.3).
const N: usize = 50;
/// Intervals of skewness and variability (section 2.3).
const M: usize = 30;
/// Number of the newest intervals that count in full (section 2.3).
const F: usize = 20;
/// A path with a skewness below this has a bottleneck (section 3.3.1, step 1),
const C_S: f64 = 0.1;
/// or below this if it had one before,
const C_H: f64 = 0.3;
/// or with a loss above this.
const P_L: f64 = 0.1;
/// Largest difference of the oscillation estimates in a group (step 2).
const P_F: f64 = 0.1;
/// Largest difference of the variabilities, relative to the larger (step 3).
const P_MAD: f64 = 0.1;
/// Largest difference of the skewnesses (step 4).
const P_S: f64 = 0.15;
/// Largest difference of the losses, relative to the larger (step 5).
const P_D: f64 = 0.1;
/// A mean crossing is significant if it extends this many variabilities from the mean (section
/// 3.2.4).
const P_V: f64 = 0.7;

/// The detector; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Rfc8382 {
    intervals: Intervals,
    paths: Vec<PathStatistics>,
}

/// Successive intervals of equal length, the same for all paths.
#[derive(Clone, Debug)]
struct Intervals {
    length: f64,
    end: f64,
}

impl Intervals {
    /// Intervals of `length` s; the first one begins with the first event.
    fn new(length: f64) -> Intervals {
        Intervals {
            length,
            end: f64::INFINITY,
        }
    }

    /// Whether the interval before the event at `now` (s) is over. After a silence, the next
    /// interval begins with that event.
    fn ends(&mut self, now: f64) -> bool {
        if now < self.end && self.end.is_finite() {
            return false;
        }
        let is_first = self.end.is_infinite();
        self.end += self.length;
        if is_first || self.end <= now {
            self.end = now + self.length;
        }
        !is_first
    }
}

/// What is counted of a path in a base interval.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    count: u32,
    lost: u32,
    sum: f64,
    /// Delays below the mean delay less delays above it (section 3.2.2).
    skew: i32,
    /// Sum of the deviations from the mean of the interval before (section 3.2.3).
    deviation: f64,
}

#[derive(Clone, Debug, Default)]
struct PathStatistics {
    now: Interval,
    /// The last N intervals with packets, the newest last.
    past: VecDeque<Interval>,
    /// Mean of the means of the last M intervals, s; `None` before the first interval ends.
    mean_delay: Option<f64>,
    has_bottleneck: bool,
}

/// The estimates by which paths are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimates {
    /// -1 to 1; below 0 if most delays are above the mean: the queue is mostly long.
    skewness: f64,
    /// Mean absolute deviation, s.
    variability: f64,
    /// Significant crossings of the mean per interval.
    oscillation: f64,
    /// Lost packets over all.
    loss: f64,
}

impl Default for Rfc8382 {
    fn default() -> Self {
        Rfc8382 {
            intervals: Intervals::new(T),
            paths: Vec::new(),
        }
    }
}

impl Rfc8382 {
    pub fn add_path(&mut self) {
        self.paths.push(PathStatistics::default());
    }

    /// As [`Detector::on_delay`](super::Detector::on_delay). The first decision is after M
    /// intervals.
    pub fn on_delay(&mut self, r: usize, now: f64, delay: f64) -> Option<Vec<usize>> {
        let ended = self.intervals.ends(now);
        if ended {
            self.paths.iter_mut().for_each(PathStatistics::end_interval);
        }
        let ready = ended && self.paths.iter().any(|path| path.past.len() >= M);
        let decided = ready.then(|| self.decide());
        self.paths[r].add(delay);
        decided
    }

    pub fn on_lost(&mut self, r: usize, packets: u32) {
        self.paths[r].now.lost += packets;
    }

    /// Section 3.3.1.
    fn decide(&mut self) -> Vec<usize> {
        let all: Vec<Option<Estimates>> = self.paths.iter_mut().map(|path| path.judge()).collect();
        let mut groups = one_group(all.len());
        let mut step = |alike: fn(&Estimates, &Estimates) -> bool| {
            divide(&mut groups, |i, j| {
                all[i].zip(all[j]).is_some_and(|(a, b)| alike(&a, &b))
            });
        };
        step(|a, b| (a.oscillation - b.oscillation).abs() < P_F);
        step(|a, b| near(a.variability, b.variability, P_MAD));
        step(|a, b| (a.skewness - b.skewness).abs() < P_S);
        step(|a, b| a.loss.min(b.loss) <= P_L || near(a.loss, b.loss, P_D));
        groups
    }
}

/// Whether two positive numbers differ by less than `share` of the larger one.
fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() < share * a.max(b)
}

/// The weight of the interval that is `age` intervals old: in full for F, then falling linearly
/// (section 4.1).
fn weight(age: usize) -> f64 {
    if age < F {
        1.0
    } else {
        (M - age) as f64 / (M - F + 1) as f64
    }
}

impl Interval {
    fn mean(&self) -> f64 {
        self.sum / f64::from(self.count)
    }
}

impl PathStatistics {
    fn add(&mut self, delay: f64) {
        if let Some(mean) = self.mean_delay {
            self.now.skew += i32::from(delay < mean) - i32::from(delay > mean);
        }
        if let Some(before) = self.past.back() {
            self.now.deviation += (delay - before.mean()).abs();
        }
        self.now.sum += delay;
        self.now.count += 1;
    }

    fn end_interval(&mut self) {
        if self.now.count == 0 {
            return;
        }
        if self.past.len() == N {
            self.past.pop_front();
        }
        self.past.push_back(core::mem::take(&mut self.now));
        let last = self.past.iter().rev().take(M);
        let count = last.len() as f64;
        self.mean_delay = Some(last.map(Interval::mean).sum::<f64>() / count);
    }

    /// Step 1: the estimates, if the path has a bottleneck.
    fn judge(&mut self) -> Option<Estimates> {
        let estimates = self.estimates()?;
        let Estimates { skewness, loss, .. } = estimates;
        self.has_bottleneck =
            skewness < C_S || (self.has_bottleneck && skewness < C_H) || loss > P_L;
        self.has_bottleneck.then_some(estimates)
    }

    /// `None` before M intervals.
    fn estimates(&self) -> Option<Estimates> {
        if self.past.len() < M {
            return None;
        }
        let (mut skew, mut deviation, mut count) = (0.0, 0.0, 0.0);
        for (age, interval) in self.past.iter().rev().take(M).enumerate() {
            skew += weight(age) * f64::from(interval.skew);
            deviation += weight(age) * interval.deviation;
            count += weight(age) * f64::from(interval.count);
        }
        let variability = deviation / count;
        let (lost, arrived) = self
            .past
            .iter()
            .fold((0.0, 0.0), |(lost, arrived), interval| {
                (
                    lost + f64::from(interval.lost),
                    arrived + f64::from(interval.count),
                )
            });
        Some(Estimates {
            skewness: skew / count,
            variability,
            oscillation: self.crossings(variability) as f64 / self.past.len() as f64,
            loss: lost / (lost + arrived),
        })
    }

    /// Crossings of the mean over N intervals that extend beyond it significantly (section 3.2.4).
    fn crossings(&self, variability: f64) -> usize {
        let mean = self.past.iter().map(Interval::mean).sum::<f64>() / self.past.len() as f64;
        let extent = P_V * variability;
        let beyond = self.past.iter().map(|interval| interval.mean() - mean);
        let mut sides = beyond.filter(|by| by.abs() > extent).map(|by| by > 0.0);
        let mut side = sides.next();
        sides
            .filter(|&next| side.replace(next) != Some(next))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// A path whose intervals have these delays, s.
    fn path(intervals: impl IntoIterator<Item = Vec<f64>>) -> PathStatistics {
        let mut path = PathStatistics::default();
        for delays in intervals {
            delays.into_iter().for_each(|delay| path.add(delay));
            path.end_interval();
        }
        path
    }

    fn estimates(intervals: impl IntoIterator<Item = Vec<f64>>) -> Estimates {
        path(intervals).estimates().expect("M intervals")
    }

    /// Three of four delays above the mean: -1 + 1/4 + 1/4 ... = (1 - 3) / 4 per interval. The mean
    /// of an interval is (1 + 3 * 5) / 4 = 4, the deviations from it 3 + 3 * 1 over 4 packets.
    #[test]
    fn skewness_and_variability_are_those_of_the_definitions() {
        let found = estimates(core::iter::repeat_n(vec![1.0, 5.0, 5.0, 5.0], 60));
        assert!((found.skewness + 0.5).abs() < 1e-12);
        assert!((found.variability - 1.5).abs() < 1e-12);
        assert_eq!(found.oscillation, 0.0);
    }

    /// Means of 5 and 15 in turn, each for 5 intervals: of N = 50, 10 runs and so 9 crossings. They
    /// extend 5 from the mean of 10, beyond 0.7 of the variability: within a run 0, at each change
    /// 10, so at most 2 or so on average.
    #[test]
    fn oscillation_counts_significant_crossings() {
        let mean = |number: usize| {
            if (number / 5).is_multiple_of(2) {
                5.0
            } else {
                15.0
            }
        };
        let found = estimates((0..N).map(|number| vec![mean(number)]));
        assert_eq!(found.oscillation, 9.0 / N as f64);
    }

    /// One packet of ten is lost in every second interval: 1 of 20 that arrive or are lost, as the
    /// lost one is not among the ten delays: 25 / (25 + 500).
    #[test]
    fn loss_is_over_all_packets_of_n_intervals() {
        let mut path = PathStatistics::default();
        for number in 0..N {
            (0..10).for_each(|_| path.add(0.1));
            path.now.lost = number as u32 % 2;
            path.end_interval();
        }
        let found = path.estimates().expect("M intervals");
        assert!((found.loss - 25.0 / 525.0).abs() < 1e-12);
    }

    /// 20 of 30 intervals count in full, and the oldest 1/11.
    #[test]
    fn the_newest_intervals_weigh_most() {
        assert_eq!((weight(0), weight(F - 1)), (1.0, 1.0));
        assert_eq!((weight(F), weight(M - 1)), (10.0 / 11.0, 1.0 / 11.0));
    }

    /// A skewness of 0.2 is no bottleneck at first, and still one after a smaller value.
    #[test]
    fn a_bottleneck_is_left_with_hysteresis() {
        // Three of five below the mean: (3 - 2) / 5 = 0.2.
        let light = || core::iter::repeat_n(vec![1.0, 1.0, 1.0, 3.5, 3.5], N);
        assert!(path(light()).judge().is_none());
        let mut after = path(light());
        after.has_bottleneck = true;
        assert!(after.judge().is_some());
    }

    #[test]
    fn an_interval_without_packets_is_skipped() {
        let found = estimates((0..80).map(|number| vec![2.0; number % 2]));
        assert_eq!((found.variability, found.skewness), (0.0, 0.0));
    }
}
