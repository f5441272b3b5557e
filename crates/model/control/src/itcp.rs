//! Rate adjustment for an aggregate connection (I-TCP): kappa of a weighted-Vegas connection
//! follows the buffer of the gateway that feeds it.
//!
//! The endpoint samples the buffer after the time that the adjuster gives; there is no clock here,
//! and the one random number is the endpoint's.

/// The parameters of the paper's table I.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateAdjustment {
    /// C: samples of the buffer from which one slope is fitted, at least 2.
    pub samples: u32,
    /// P: time between two samples, s.
    pub period_s: f64,
    /// M: the largest kappa.
    pub max_kappa: f64,
    /// The buffer size that the thresholds are relative to, packets.
    pub max_queue_packets: f64,
    /// Margin by which the share should exceed the offered load, relative to the share.
    pub epsilon: f64,
    /// The decrease of kappa, relative to kappa.
    pub gamma: f64,
    /// No increase while the mean buffer is at most this fraction of `max_queue_packets`.
    pub low_threshold: f64,
    /// No decrease, and an increase by at least 1, while the mean buffer is above this fraction of
    /// `max_queue_packets`.
    pub high_threshold: f64,
    /// A condition on the decrease that the paper's rule lacks.
    pub guard: Guard,
}

/// Condition of a decrease of kappa beside two rounds of negative slope: assumption (iii) of the
/// paper's proposition 1, that nothing decreases while phi < rho + epsilon, by what a gateway
/// measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing, as printed.
    Off,
    /// The arrival rate since the start, plus epsilon, is at most the share.
    Load,
    /// The buffer shrinks by more than epsilon of the expected rate: L' < -epsilon in the last of
    /// the rounds. An empty buffer does not, so nothing is given up while it stays empty.
    Growth,
}

/// The result of a round of buffer samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// L' of equation (9): the slope of the buffer over the connection's expected rate, which is
    /// its window over its smallest RTT.
    pub growth: f64,
    /// Mean length of the buffer, packets.
    pub mean_packets: f64,
    /// The arrival rate since the gateway started, over the smallest expected rate of the samples
    /// with a non-empty buffer. The rate within a round is not used, because with heavy-tailed
    /// files most rounds see less than the load. The smallest rate is closest to the connection's
    /// share, which it exceeds while others are idle. 0 if the buffer was always empty.
    pub load: f64,
}

impl RateAdjustment {
    /// kappa after a round of samples: equation (10) and the text around it. `falling` counts the
    /// rounds with a negative slope in a row, this one included.
    ///
    /// Unstated in the paper: below the low threshold a decrease is allowed. Above the high one its
    /// section III-A has an increase at L' > 0, III-B at a "non-negative" L'; this is III-A's. They
    /// differ for a slope of exactly 0, which changes nothing here.
    pub fn kappa_after(&self, kappa: f64, trend: &Trend, falling: u32) -> f64 {
        let too_long = trend.mean_packets > self.longest_packets();
        let changed = if trend.growth > 0.0 {
            let step = 0.5 * (trend.growth + self.epsilon) * kappa;
            if too_long {
                kappa + step.max(1.0)
            } else if trend.mean_packets > self.low_threshold * self.max_queue_packets {
                kappa + step
            } else {
                kappa
            }
        } else if falling >= 2 && !too_long && self.guard_allows(trend) {
            (1.0 - self.gamma) * kappa
        } else {
            kappa
        };
        changed.min(self.max_kappa).max(1.0)
    }

    /// Whether the guard allows a decrease.
    fn guard_allows(&self, trend: &Trend) -> bool {
        match self.guard {
            Guard::Off => true,
            Guard::Load => trend.load + self.epsilon <= 1.0,
            Guard::Growth => trend.growth < -self.epsilon,
        }
    }

    /// The high threshold, packets.
    fn longest_packets(&self) -> f64 {
        self.high_threshold * self.max_queue_packets
    }
}

/// A sample of the gateway's buffer, with the state of the aggregate connection.
#[derive(Clone, Copy, Debug)]
pub struct BufferSample {
    /// Time since the gateway started, s.
    pub age_s: f64,
    /// Data queued in the gateway that was never sent, packets.
    pub buffer_packets: f64,
    /// All data that has arrived at the gateway, packets.
    pub arrived_packets: f64,
    /// Congestion window of the aggregate connection, packets.
    pub window: f64,
    /// Smallest RTT, s.
    pub base_rtt: f64,
}

/// The rate adjustment of one gateway: the samples of the present round, and kappa.
#[derive(Clone, Debug)]
pub struct Adjuster {
    adjustment: RateAdjustment,
    kappa: f64,
    falling: u32,
    is_too_long: bool,
    round: Round,
}

/// Sums over the samples of a round.
#[derive(Clone, Copy, Debug)]
struct Round {
    samples: u32,
    packets: f64,
    /// Sum of each sample's number, from 0, times its length.
    moment: f64,
    smallest_rate: f64,
}

impl Round {
    const NEW: Round = Round {
        samples: 0,
        packets: 0.0,
        moment: 0.0,
        smallest_rate: f64::INFINITY,
    };

    fn add(&mut self, sample: &BufferSample) {
        self.packets += sample.buffer_packets;
        self.moment += f64::from(self.samples) * sample.buffer_packets;
        if sample.buffer_packets > 0.0 {
            self.smallest_rate = self.smallest_rate.min(sample.window / sample.base_rtt);
        }
        self.samples += 1;
    }

    /// The line of least squares through the samples; the window is that at the end of the round.
    fn trend(&self, last: &BufferSample, period_s: f64) -> Trend {
        let n = f64::from(self.samples);
        // Sum of (i - mean)^2 over i from 0 to n - 1.
        let spread = n * (n * n - 1.0) / 12.0;
        let slope = (self.moment - 0.5 * (n - 1.0) * self.packets) / spread / period_s;
        Trend {
            growth: slope * last.base_rtt / last.window,
            mean_packets: self.packets / n,
            load: last.arrived_packets / last.age_s / self.smallest_rate,
        }
    }
}

impl Adjuster {
    /// An adjuster with this initial kappa, clamped to between 1 and the largest.
    pub fn new(adjustment: RateAdjustment, kappa: f64) -> Adjuster {
        Adjuster {
            adjustment,
            kappa: kappa.min(adjustment.max_kappa).max(1.0),
            falling: 0,
            is_too_long: false,
            round: Round::NEW,
        }
    }

    /// Replaces M, the largest kappa, from the next change of kappa on; below 1 counts as 1.
    pub fn set_max_kappa(&mut self, max_kappa: f64) {
        self.adjustment.max_kappa = max_kappa;
    }

    /// The high threshold, packets.
    pub fn longest_packets(&self) -> f64 {
        self.adjustment.longest_packets()
    }

    /// Whether the mean buffer of the last round was above the high threshold.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// The weight of the aggregate connection.
    pub fn kappa(&self) -> f64 {
        self.kappa
    }

    /// How long to wait until the next sample, s: the period, and before the first of a round also
    /// `draw`, uniform on [0, 1), of the time a round takes, so that gateways do not synchronise.
    pub fn wait_s(&self, draw: impl FnOnce() -> f64) -> f64 {
        let RateAdjustment {
            samples, period_s, ..
        } = self.adjustment;
        if self.round.samples > 0 {
            return period_s;
        }
        period_s + draw() * f64::from(samples) * period_s
    }

    /// Adds a sample of the buffer. The last sample of a round changes kappa.
    pub fn sample(&mut self, sample: &BufferSample) {
        self.round.add(sample);
        if self.round.samples < self.adjustment.samples {
            return;
        }
        let trend = self.round.trend(sample, self.adjustment.period_s);
        self.round = Round::NEW;
        self.is_too_long = trend.mean_packets > self.longest_packets();
        self.falling = if trend.growth < 0.0 {
            self.falling + 1
        } else {
            0
        };
        let kappa = self
            .adjustment
            .kappa_after(self.kappa, &trend, self.falling);
        if kappa < self.kappa {
            self.falling = 0;
        }
        self.kappa = kappa;
    }
}
