//! Paths share a bottleneck if their delays are correlated.
//!
//! Packets of two paths that wait in the same queue meet the same waiting times. Over intervals of
//! [`INTERVAL`], the mean delay of one path is then high when the other's is. The correlation is
//! computed for each pair of paths. RFC 8382 compares statistics of each path instead, because
//! its paths may end at different hosts, whose clocks differ; here all are observed by one sender.
//!
//! A delayed acknowledgement adds up to 40 ms to a sample, as much as a queue and without relation
//! to the other path, and lowers the correlation. Samples and intervals that may be so have less
//! weight, and the variance of an interval's mean is subtracted from that of the intervals
//! (correction for attenuation: Spearman, American Journal of Psychology 15, 1904).

use alloc::vec::Vec;

use super::delays::{Delays, Interval, Mean};
use super::{divide, one_group};

/// Length of an interval, s. Longer than the RTTs of most paths, so that each has samples and the
/// paths' different distances from the bottleneck matter little.
const INTERVAL: f64 = 0.2;

/// Weight of the newest interval: the correlation is over about `1 / GAIN` intervals, 10 s.
const GAIN: f64 = 1.0 / 50.0;

/// The most that an interval counts, so that few good intervals among bad ones do not decide alone.
const MOST: f64 = 3.0 * GAIN;

/// Intervals that a decision needs, 3 s. Of independent delays without memory, the standard
/// deviation of the estimate is then 0.26.
const NEEDED: u32 = 15;

/// Correlation above which a pair shares a bottleneck.
const TOGETHER: f64 = 0.5;

/// Correlation below which a pair shares none. Between [`TOGETHER`] and this the last decision
/// holds.
const APART: f64 = 0.4;

/// A path whose delay deviates by less than this from its mean (s, root mean square) has no
/// bottleneck.
const SMALLEST_DEVIATION: f64 = 10e-6;

/// Waits by which the weight of an interval falls, s.
const LONG_WAIT: f64 = 0.01;

/// The largest share of a variance that is taken to be error, so that what is known of a path with
/// few and scattered samples does not rest on the estimate of their error.
const LARGEST_ERROR: f64 = 0.5;

/// When a packet meets the bottleneck is not known, only that it does between the two ends of the
/// forward path: taken to be after this share of its round trip.
const PLACE: f64 = 1.0 / 4.0;

/// The detector; see the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Correlation {
    paths: Vec<Delays>,
    /// Paths i < j at place `j (j - 1) / 2 + i`, so that a new path's pairs come last.
    pairs: Vec<Pair>,
}

/// The correlation of the delays of two paths.
#[derive(Clone, Debug)]
struct Pair {
    /// Intervals in which both had delays.
    intervals: u32,
    /// Sum of the weights of these intervals, which fade.
    weights: f64,
    /// Mean delays, s.
    means: [f64; 2],
    /// Variances of the delays, s^2.
    variances: [f64; 2],
    /// Parts of the variances that are error, s^2.
    errors: [f64; 2],
    /// Covariance of the delays, s^2.
    covariance: f64,
    /// Coupled until shown to be separate: while it is unknown, the paths together take no more
    /// than one connection would.
    shared: bool,
}

impl Correlation {
    pub fn add_path(&mut self) {
        let pairs = core::iter::repeat_n(Pair::new(), self.paths.len());
        self.pairs.extend(pairs);
        self.paths.push(Delays::default());
    }

    /// As [`Detector::on_delay`](super::Detector::on_delay).
    pub fn on_delay(&mut self, r: usize, now: f64, sent_at: f64, delay: f64) -> Option<Vec<usize>> {
        let time = sent_at + PLACE * (now - sent_at);
        let ended = self.paths[r].add((time / INTERVAL) as u64, now, sent_at, delay)?;
        self.compare(r, ended);
        let mut groups = one_group(self.paths.len());
        divide(&mut groups, |i, j| self.pairs[place(i, j)].shared);
        Some(groups)
    }

    /// An interval of path `r` has ended.
    fn compare(&mut self, r: usize, ended: Interval) {
        for other in (0..self.paths.len()).filter(|&other| other != r) {
            let Some(mean) = self.paths[other].in_interval(ended.number) else {
                continue;
            };
            if r < other {
                self.pairs[place(r, other)].add([ended.mean, mean]);
            } else {
                self.pairs[place(other, r)].add([mean, ended.mean]);
            }
        }
    }
}

/// The place of the paths i < j among the pairs.
fn place(i: usize, j: usize) -> usize {
    j * (j - 1) / 2 + i
}

impl Pair {
    fn new() -> Pair {
        Pair {
            intervals: 0,
            weights: 0.0,
            means: [0.0; 2],
            variances: [0.0; 2],
            errors: [0.0; 2],
            covariance: 0.0,
            shared: true,
        }
    }

    /// Adds an interval with these delays.
    fn add(&mut self, of_both: [Mean; 2]) {
        self.intervals += 1;
        let weight = weight(of_both);
        // The plain moments of the first intervals.
        let fades = GAIN * f64::from(self.intervals) > 1.0;
        self.weights = self.weights * if fades { 1.0 - GAIN } else { 1.0 } + weight;
        let most = MOST.max(1.0 / f64::from(self.intervals));
        let gain = (weight / self.weights).min(most);
        let [a, b] = [0, 1].map(|r| of_both[r].delay - self.means[r]);
        self.means[0] += gain * a;
        self.means[1] += gain * b;
        self.variances[0] = (1.0 - gain) * (self.variances[0] + gain * a * a);
        self.variances[1] = (1.0 - gain) * (self.variances[1] + gain * b * b);
        self.covariance = (1.0 - gain) * (self.covariance + gain * a * b);
        for (error, mean) in self.errors.iter_mut().zip(of_both) {
            *error += gain * (mean.error - *error);
        }
        if self.intervals >= NEEDED {
            self.shared = self.exceeds(if self.shared { APART } else { TOGETHER });
        }
    }

    /// Whether the correlation exceeds `threshold`.
    fn exceeds(&self, threshold: f64) -> bool {
        let ([a, b], covariance) = (self.variances, self.covariance);
        let deviates = a.min(b) > SMALLEST_DEVIATION * SMALLEST_DEVIATION;
        let [a, b] = [0, 1].map(|r| self.variance_without_error(r));
        deviates && covariance > 0.0 && covariance * covariance > threshold * threshold * a * b
    }

    fn variance_without_error(&self, r: usize) -> f64 {
        let variance = self.variances[r];
        variance - self.errors[r].min(LARGEST_ERROR * variance)
    }
}

/// The weight of an interval: half at equal waits of 7 ms, and a 19th at 30 ms. Where it fell
/// faster, a user alone with one packet in flight on a path had too few intervals that count.
fn weight(of_both: [Mean; 2]) -> f64 {
    let [a, b] = of_both.map(|mean| mean.wait / LONG_WAIT);
    1.0 / (1.0 + a * a + b * b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(delays: impl IntoIterator<Item = [f64; 2]>) -> Pair {
        let mut pair = Pair::new();
        let exactly = |delay| Mean {
            delay,
            error: 0.0,
            wait: 0.0,
        };
        delays
            .into_iter()
            .for_each(|both| pair.add(both.map(exactly)));
        pair
    }

    /// Delays of 0 or 1 and 0 or 2 in turn: variances 1/4 and 1, covariance 1/2, and so 1.
    #[test]
    fn the_correlation_is_that_of_the_delays() {
        let same = pair((0..40).map(|n| [f64::from(n % 2), 2.0 * f64::from(n % 2)]));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(same.variances[0], 0.25) && near(same.variances[1], 1.0));
        assert!(near(same.covariance, 0.5));
        assert!(same.exceeds(0.999) && !same.exceeds(1.001));
        let opposite = pair((0..40).map(|n| [f64::from(n % 2), -f64::from(n % 2)]));
        assert!(!opposite.exceeds(0.0));
    }

    /// Queues of 0 or 10 and of 0 or 20 ms in turn, and errors of the same size with two and four
    /// times the period: variances of 25 + 25 and 100 + 100 ms^2, covariance 50 ms^2, and so a
    /// correlation of 1/2. Without the errors it is 1.
    #[test]
    fn errors_of_the_samples_do_not_lower_the_correlation() {
        let interval = |n: u32| {
            let (queue, wait) = (f64::from(n % 2), f64::from(n / 2 % 2));
            let late = f64::from(n / 4 % 2);
            [(0.01, wait), (0.02, late)].map(|(size, error)| Mean {
                delay: size * (queue + error),
                error: size * size / 4.0,
                wait: 0.0,
            })
        };
        let mut pair = Pair::new();
        (0..400).for_each(|n| pair.add(interval(n)));
        let raw = pair.covariance / libm::sqrt(pair.variances[0] * pair.variances[1]);
        assert!((raw - 0.5).abs() < 0.05, "{raw}");
        assert!(pair.exceeds(0.9) && !pair.exceeds(1.1));
    }

    /// Over four periods of the slower one the covariance is 0.
    #[test]
    fn uncorrelated_delays_are_separate() {
        assert!(!pair((0..16).map(|n| [f64::from(n % 2), f64::from(n / 2 % 2)])).shared);
    }

    #[test]
    fn a_pair_is_decided_after_fifteen_intervals() {
        let apart = |n: u32| pair((0..n).map(|n| [f64::from(n % 2), -f64::from(n % 2)]));
        assert!(apart(NEEDED - 1).shared);
        assert!(!apart(NEEDED).shared);
    }

    /// Deviations of 0.5 us are below the smallest.
    #[test]
    fn small_deviations_are_no_bottleneck() {
        assert!(!pair((0..40).map(|n| [1e-6 * f64::from(n % 2); 2])).shared);
        assert!(pair((0..40).map(|n| [1e-4 * f64::from(n % 2); 2])).shared);
    }

    /// Path 1's acknowledgements are a second late: its intervals end later, and are compared with
    /// path 0's at the same times.
    #[test]
    fn intervals_of_different_round_trips_are_compared() {
        let mut detector = Correlation::default();
        (0..2).for_each(|_| detector.add_path());
        let delay = |time: f64| {
            if ((time / INTERVAL) as u32).is_multiple_of(2) {
                0.0
            } else {
                0.01
            }
        };
        for step in 0..2000 {
            let (now, late) = (f64::from(step) * 0.01, 1.0);
            detector.on_delay(0, now, now, delay(now));
            // The same queue at the same time; `PLACE` of the round trip is taken to be before it.
            let met = now - late + PLACE * late;
            if met >= 0.0 {
                detector.on_delay(1, now, now - late, delay(met));
            }
        }
        assert!(detector.pairs[0].intervals > 80);
        assert!(detector.pairs[0].exceeds(0.99));
    }
}
