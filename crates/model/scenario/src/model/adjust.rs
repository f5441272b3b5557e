//! The rate adjustment of a gateway (I-TCP).

use anabranch_control::RateAdjustment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::number::{Kappa, NonNegative, PeriodS, Positive, Probability, Samples};

/// How a gateway adjusts the kappa of its weighted-Vegas connection. Defaults: I-TCP, table I.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Adjust {
    /// C: samples of the gateway's buffer from which one slope is fitted, at least 2.
    pub samples: Samples,
    /// P: time between two samples, s. A random wait, uniform up to `samples` of it, comes before.
    pub period_s: PeriodS,
    /// M: the largest kappa, at least 1, which is the smallest.
    pub max_kappa: Kappa,
    /// Buffer size that the thresholds are fractions of, packets. It is not a limit.
    pub max_queue_packets: Positive,
    /// Margin by which the share should exceed the offered load, relative to the share.
    pub epsilon: NonNegative,
    /// Fraction of kappa that a decrease removes.
    pub gamma: Probability,
    /// kappa never grows while the mean buffer is at most this fraction of `max_queue_packets`.
    pub low_threshold: NonNegative,
    /// kappa never shrinks, and grows by at least 1, while the mean buffer is above this fraction.
    pub high_threshold: NonNegative,
    /// kappa never shrinks while the measured arrival rate, plus epsilon, exceeds the share. The
    /// rule as printed has no such guard.
    pub guard: bool,
}

impl Default for Adjust {
    fn default() -> Self {
        Adjust {
            samples: Samples::constant(180),
            period_s: PeriodS::constant(0.5),
            max_kappa: Kappa::constant(10.0),
            max_queue_packets: Positive::constant(200_000.0),
            epsilon: NonNegative::constant(0.1),
            gamma: Probability::constant(0.2),
            low_threshold: NonNegative::constant(0.2),
            high_threshold: NonNegative::constant(1.0),
            guard: false,
        }
    }
}

impl Adjust {
    /// The parameters of the control rule.
    pub fn parameters(&self) -> RateAdjustment {
        RateAdjustment {
            samples: self.samples.get(),
            period_s: self.period_s.get(),
            max_kappa: self.max_kappa.get(),
            max_queue_packets: self.max_queue_packets.get(),
            epsilon: self.epsilon.get(),
            gamma: self.gamma.get(),
            low_threshold: self.low_threshold.get(),
            high_threshold: self.high_threshold.get(),
            guard: self.guard,
        }
    }
}
