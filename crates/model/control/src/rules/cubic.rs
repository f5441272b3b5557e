//! CUBIC.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// CUBIC on every path by itself (uncoupled), with `D_r = 0.3 w_r`.
///
/// RFC 9438. In congestion avoidance each ACK moves the window by `I_r = (target - w_r)/w_r`, where
/// the target, one RTT ahead at `t = age + tau_r`, is the larger of
///
/// - `W_cubic(t) = C (t - K)^3 + W_max`, `K = cbrt((W_max - epoch_window)/C)` (equations 1 and 2),
/// - `W_est`, Reno's window one RTT ahead (equation 4): a slope of `3 (1 - 0.7)/(1 + 0.7) = 9/17`
///   packets per window acknowledged up to the peak and of 1 beyond it,
///
/// held within `[w_r, 1.5 w_r]` (section 4.2). `W_max` is the peak, or 0.85 of it where it is below
/// the peak before (fast convergence, section 4.7); after slow start with no peak it is the window
/// the stage began with, and K = 0 (section 4.8).
///
/// Departures, so that the rule remains a pure function of the path. The window moves towards
/// `W_est` one RTT ahead at the rate of the concave and convex regions instead of jumping to
/// `W_est`; as it lags one RTT behind a line, it runs along `W_est` all the same. Fast convergence
/// compares with the window at the loss before, not with the `W_max` that an earlier fast
/// convergence had reduced. After a timeout, which forgets the peak, `W_est` grows by 1 at once,
/// not by 9/17 up to the window before it (section 4.3). docs/notebook/agreement.md compares it
/// with Linux.
#[derive(Clone, Debug)]
pub struct Cubic {
    c: f64,
}

impl Rule for Cubic {
    const NAME: &'static str = "cubic";
    const SUMMARY: &'static str = "CUBIC on every path by itself, uncoupled: what Linux does today";
    const SOURCE: &'static str = "RFC 9438";
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "c",
        default: 0.4,
        min: 0.001,
        max: 100.0,
        choices: &[],
        unit: "packets/s^3",
        meaning: "C, how steeply the window grows",
    }];
    /// The increase follows the time since the last loss.
    const FLUID: bool = false;
    const COUNTS_ROUNDS: bool = true;
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> Cubic {
        Cubic { c: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        cubic_increase(&paths[r], S::from_f64(self.c), S::of(1))
    }

    #[inline]
    fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        paths[r].window * S::of(3) / S::of(10)
    }
}

/// CUBIC's increase with this C, and with Reno's window growing `slope` times as fast as Reno's.
#[inline]
pub(super) fn cubic_increase<S: Scalar>(path: &Path<S>, c: S, slope: S) -> S {
    let (w, t) = (path.window, path.age + path.rtt);
    let target = cubic_window(path, t, c).max(reno_window(path, slope));
    (target.min(w * S::of(3) / S::of(2)).max(w) - w) / w
}

/// `W_cubic(t)`.
#[inline]
fn cubic_window<S: Scalar>(path: &Path<S>, t: S, c: S) -> S {
    let fast_convergence = path.peak < path.prior_peak;
    let w_max = if fast_convergence { path.peak * S::of(17) / S::of(20) } else { path.peak };
    let w_max = w_max.max(path.epoch_window);
    let past_k = t - cube_root((w_max - path.epoch_window) / c);
    c * past_k * past_k * past_k + w_max
}

/// `W_est`, one RTT ahead.
#[inline]
fn reno_window<S: Scalar>(path: &Path<S>, slope: S) -> S {
    let (start, slope_to_peak) = (path.epoch_window, slope * S::of(9) / S::of(17));
    let peak = path.peak.max(start);
    let (rounds, rounds_to_peak) = (path.rounds + S::of(1), (peak - start) / slope_to_peak);
    if rounds <= rounds_to_peak {
        start + slope_to_peak * rounds
    } else {
        peak + slope * rounds - slope * rounds_to_peak
    }
}

/// The cube root by Halley's iteration, which triples the correct digits. From a guess within 0.75
/// and 1.5 of the root the relative error is below 5e-2, 5e-5, then 1e-13.
#[inline]
fn cube_root<S: Scalar>(a: S) -> S {
    if a <= S::of(0) {
        return S::of(0);
    }
    let mut guess = S::of(4);
    while guess * guess * guess < a {
        guess = guess * S::of(2);
    }
    while guess * guess * guess > a * S::of(8) {
        guess = guess / S::of(2);
    }
    let mut root = guess * S::of(3) / S::of(4);
    for _ in 0..3 {
        let cube = root * root * root;
        root = root * (cube + a + a) / (cube + cube + a);
    }
    root
}
