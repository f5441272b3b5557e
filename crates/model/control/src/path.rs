//! The state of a path that a rule may use.

use crate::scalar::Scalar;

/// `N` of RFC 9002, section 7.7: a sender that paces by its window sends so many windows per RTT.
pub const PACING_GAIN: f64 = 1.25;

/// The state of one path that a rule may use, in packets and seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path<S> {
    /// Congestion window, packets.
    pub window: S,
    /// Smoothed RTT, s. Infinite before the first sample, so that the rate is 0.
    pub rtt: S,
    /// Smallest RTT seen, s. Infinite before the first sample.
    pub base_rtt: S,
    /// Mean RTT over the round trip that just ended, s; 0 before the first (delay-based rules).
    pub round_rtt: S,
    /// Smoothed queueing and service delay on the forward path, s, without propagation. If only
    /// RTTs are known, it is `rtt - base_rtt`.
    pub queue_delay: S,
    /// Packets acknowledged since the last loss.
    pub since_loss: S,
    /// Packets acknowledged between the last two losses, at least 1; 0 = no loss yet.
    pub between_losses: S,
    /// Smoothed packets between losses, whose inverse estimates the loss probability; 0 = no loss
    /// yet.
    pub loss_interval: S,
    /// Window at the last loss, packets; 0 = none since the start or the last timeout.
    pub peak: S,
    /// Window at the loss before that, packets; 0 = none.
    pub prior_peak: S,
    /// Window at the start of the present stage of congestion avoidance, packets; 0 = none yet.
    pub epoch_window: S,
    /// Time in that stage, s, without the times when the application sent less than the window
    /// allowed.
    pub age: S,
    /// Windows acknowledged in that stage while the window limited the sender: each packet counts
    /// as `1/w` (RFC 9438, section 4.3). Only for rules that
    /// [count rounds](crate::rule::Rule::COUNTS_ROUNDS).
    pub rounds: S,
}

impl<S: Scalar> Path<S> {
    /// The rate `x_r = w_r / tau_r`, packets/s.
    #[inline]
    pub fn rate(&self) -> S {
        self.window / self.rtt
    }

    /// The rate of a sender that paces by its window, packets/s: RFC 9002, section 7.7.
    pub fn pacing_rate(&self) -> S {
        S::from_f64(PACING_GAIN) * self.rate()
    }

    /// The same path in another number type: `convert` applied to every field.
    pub fn map<T>(&self, convert: impl Fn(S) -> T) -> Path<T> {
        Path {
            window: convert(self.window),
            rtt: convert(self.rtt),
            base_rtt: convert(self.base_rtt),
            round_rtt: convert(self.round_rtt),
            queue_delay: convert(self.queue_delay),
            since_loss: convert(self.since_loss),
            between_losses: convert(self.between_losses),
            loss_interval: convert(self.loss_interval),
            peak: convert(self.peak),
            prior_peak: convert(self.prior_peak),
            epoch_window: convert(self.epoch_window),
            age: convert(self.age),
            rounds: convert(self.rounds),
        }
    }
}

/// The sum of the paths' rates, packets/s.
#[inline]
pub fn total_rate<S: Scalar>(paths: &[Path<S>]) -> S {
    paths.iter().fold(S::of(0), |sum, path| sum + path.rate())
}

/// The largest of the paths' rates, packets/s.
#[inline]
pub fn fastest_rate<S: Scalar>(paths: &[Path<S>]) -> S {
    paths
        .iter()
        .fold(S::of(0), |max, path| max.max(path.rate()))
}

/// The sum of the paths' windows, packets.
#[inline]
pub fn total_window<S: Scalar>(paths: &[Path<S>]) -> S {
    paths.iter().fold(S::of(0), |sum, path| sum + path.window)
}
