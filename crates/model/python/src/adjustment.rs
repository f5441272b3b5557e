//! The rate adjustment of an aggregate connection (I-TCP).

use anabranch_control::{RateAdjustment as Adjustment, Trend};
use pyo3::prelude::*;

/// Decision about kappa after a round of samples.
#[pyclass(frozen, module = "anabranch")]
pub struct RateAdjustment(Adjustment);

#[pymethods]
impl RateAdjustment {
    /// The parameters of the paper's table I but for its samples, which are taken as seen.
    #[new]
    #[pyo3(signature = (*, epsilon, gamma, max_kappa, max_queue_packets, low_threshold, high_threshold, guard))]
    fn new(
        epsilon: f64,
        gamma: f64,
        max_kappa: f64,
        max_queue_packets: f64,
        low_threshold: f64,
        high_threshold: f64,
        guard: bool,
    ) -> RateAdjustment {
        RateAdjustment(Adjustment {
            samples: 2,
            period_s: 1.0,
            epsilon,
            gamma,
            max_kappa,
            max_queue_packets,
            low_threshold,
            high_threshold,
            guard,
        })
    }

    /// kappa after a round with this growth (L'), mean buffer and load over expected rate.
    /// `falling` counts the rounds with a negative slope in a row, this one included.
    fn kappa_after(
        &self,
        kappa: f64,
        growth: f64,
        mean_packets: f64,
        load: f64,
        falling: u32,
    ) -> f64 {
        let trend = Trend {
            growth,
            mean_packets,
            load,
        };
        self.0.kappa_after(kappa, &trend, falling)
    }
}
