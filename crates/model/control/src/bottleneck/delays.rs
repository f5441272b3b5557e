//! The mean delays of a path in intervals, and how exact they are.
//!
//! The acknowledgement of a packet may wait at the receiver for the next packet, or for up to 40 ms
//! (RFC 1122, section 4.2.3.2, allows 500). When acknowledgements arrive, and when the packets that
//! they report were sent, bounds this wait.

/// The error of a sample whose acknowledgement did not wait, s.
const SMALLEST_ERROR: f64 = 0.002;

/// Intervals that a path remembers: 1.6 s, by which the RTTs of two paths may differ.
const REMEMBERED: usize = 8;

/// An interval of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub number: u64,
    pub mean: Mean,
}

/// The mean of an interval's delays, s, and its error: the variance of this mean, s^2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    pub delay: f64,
    pub error: f64,
    /// Mean of the longest times for which the acknowledgements may have waited, s.
    pub wait: f64,
}

/// A delay, s, until the next one shows how long its acknowledgement may have waited.
#[derive(Clone, Copy, Debug)]
struct Sample {
    number: u64,
    delay: f64,
    sent_at: f64,
    /// Time since the acknowledgement before, s.
    gap: f64,
}

/// The delays of a path.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    /// The current interval.
    number: u64,
    samples: Samples,
    /// Arrival of the last acknowledgement, s.
    last_acked: f64,
    /// Delay of the last acknowledgement.
    last: Option<Sample>,
    /// The last intervals that had delays, in the order of their numbers modulo `REMEMBERED`.
    past: [Option<Interval>; REMEMBERED],
}

/// The weighted delays of an interval.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Sum of the weights.
    weights: f64,
    /// Sum of the squared weights.
    squares: f64,
    /// Weighted mean, s.
    mean: f64,
    /// Weighted sum of the squared deviations from the mean, s^2.
    deviations: f64,
    /// Weighted sum of the longest waits, s.
    waits: f64,
}

impl Delays {
    /// Takes a delay, and adds the one before; gives the interval before that, if it was the first
    /// one of another interval. A delay of an earlier interval is ignored.
    pub fn add(&mut self, number: u64, now: f64, sent_at: f64, delay: f64) -> Option<Interval> {
        let gap = (now - self.last_acked).max(0.0);
        self.last_acked = now;
        let last = self.last.replace(Sample {
            number,
            delay,
            sent_at,
            gap,
        })?;
        let ended = if !self.samples.is_empty() && last.number > self.number {
            Some(self.end())
        } else {
            None
        };
        if self.samples.is_empty() {
            self.number = last.number;
        }
        if self.number == last.number {
            // A packet arrives after the acknowledgement before, and is acknowledged before the
            // first packet of the next acknowledgement arrives.
            let longest_wait = last.gap.min((sent_at - last.sent_at).max(0.0));
            self.samples.add(last.delay, longest_wait);
        }
        ended
    }

    fn end(&mut self) -> Interval {
        let ended = Interval {
            number: self.number,
            mean: core::mem::take(&mut self.samples).mean(),
        };
        self.past[self.number as usize % REMEMBERED] = Some(ended);
        ended
    }

    pub fn in_interval(&self, number: u64) -> Option<Mean> {
        let found = self.past[number as usize % REMEMBERED]?;
        (found.number == number).then_some(found.mean)
    }
}

impl Samples {
    fn is_empty(&self) -> bool {
        self.weights == 0.0
    }

    /// Adds a delay; its weight is the inverse of the square of its error.
    fn add(&mut self, delay: f64, longest_wait: f64) {
        let weight = 1.0 / (SMALLEST_ERROR * SMALLEST_ERROR + longest_wait * longest_wait);
        self.weights += weight;
        self.squares += weight * weight;
        self.waits += weight * longest_wait;
        let deviation = delay - self.mean;
        self.mean += weight / self.weights * deviation;
        self.deviations += weight * deviation * (delay - self.mean);
    }

    /// The mean; its error is that of independent samples.
    fn mean(&self) -> Mean {
        let variance = self.deviations / self.weights;
        Mean {
            delay: self.mean,
            error: variance * self.squares / (self.weights * self.weights),
            wait: self.waits / self.weights,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Without a wait the weight is 1 / (2 ms)^2, with one of 2 ms half of that, so 2 and 1: mean
    /// 2/3 * 0 + 1/3 * 9 = 3 ms, variance 2/3 * 9 + 1/3 * 36 = 18 ms^2. The weights are worth
    /// 3^2 / (2^2 + 1^2) = 9/5 equal samples: the error is 18 / (9/5) = 10 ms^2.
    #[test]
    fn a_mean_is_as_exact_as_its_weights_allow() {
        let mut samples = Samples::default();
        samples.add(0.0, 0.0);
        samples.add(0.009, 0.002);
        let mean = samples.mean();
        assert!((mean.delay - 0.003).abs() < 1e-12);
        assert!((mean.error - 10e-6).abs() < 1e-12);
        assert!((mean.wait - 0.002 / 3.0).abs() < 1e-12);
    }

    /// Acknowledgements at 0, 50, 60 and 160 ms of packets sent at 0, 10, 40 and 140 ms: the second
    /// waited for 30 ms at most, until the third packet came, and the third for 10 ms, since the
    /// second acknowledgement.
    #[test]
    fn a_wait_is_bounded_by_the_acknowledgements_beside() {
        let mut path = Delays::default();
        let mut waits = Vec::new();
        for (now, sent_at) in [(0.0, 0.0), (0.05, 0.01), (0.06, 0.04), (0.16, 0.14)] {
            let before = path.samples.waits;
            path.add(0, now, sent_at, 0.0);
            waits.push(path.samples.waits - before);
        }
        // Weighted by 1 / ((2 ms)^2 + wait^2).
        let near = |a: f64, wait: f64| (a * (4e-6 + wait * wait) / wait - 1.0).abs() < 1e-9;
        assert!(near(waits[2], 0.03) && near(waits[3], 0.01));
    }
}
