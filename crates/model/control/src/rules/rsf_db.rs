//! RSF-DB, the delay-balancing rule of the rent-seeking framework.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// RSF-DB: `I_r = 1/w_r min(1, (d - q_r)/q_r)`, which is negative beyond the target delay;
/// `D_r = w_r/2`.
///
/// The rent-seeking framework, equation 1. `q_r` is the queueing and service delay from source to
/// sink, without propagation. Up to `q_r = d/2` this is NewReno on every path, uncoupled. Beyond
/// the target a window shrinks by at most one packet per round trip, so an overshoot of slow start
/// lasts for minutes (`papers/rsf`).
#[derive(Clone, Debug)]
pub struct RsfDb {
    d_s: f64,
}

impl Rule for RsfDb {
    const NAME: &'static str = "rsf-db";
    const SUMMARY: &'static str = "Rent-seeking framework, every path at the same queueing delay";
    const SOURCE: &'static str = "RSF, equation 1";
    const HAS_PROGRAM: bool = true;
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "d_s",
        default: 0.1,
        min: 0.0001,
        max: 100.0,
        choices: &[],
        unit: "s",
        meaning: "queueing and service delay at which the window is in equilibrium",
    }];
    /// Only while the queueing delay is at most half of the target.
    const RENO_ON_ONE_PATH: bool = false;
    /// The queueing delay matters too.
    const EQUILIBRIUM_BY_LOSS: bool = false;
    const INCREASE_CANCELS: bool = true;
    /// `I_r w_r` is at least -1: one packet per round trip.
    const KEEPS_OVERSHOOT: bool = true;
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> RsfDb {
        RsfDb { d_s: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let (path, d) = (&paths[r], S::from_f64(self.d_s));
        let q = path.queue_delay;
        // The smaller of the two, without a division by 0.
        let growth = if q + q <= d { S::of(1) } else { (d - q) / q };
        growth / path.window
    }
}
