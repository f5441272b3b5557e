//! The family of algorithms around Balia.

use super::balia::rate_ratio;
use crate::path::{Path, fastest_rate, total_rate};
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// The generalized algorithm: `phi_r = 2 ((1 - beta) x_r + beta ||x||_n) / (tau_r^2 x_r
/// ||x||_1^2)`, `D_r = w_r/2 (1 + eta (a_r - 1))` with `a_r = max_k x_k / x_r`, and `I_r = phi_r
/// D_r`.
///
/// Peng, Walid, Hwang, Low (Balia), equation 12, whose `k_r = x_r/2 (x_r + eta (||x||_inf - x_r))`
/// is `x_r D_r / tau_r`. The defaults are the paper's choice, (beta, eta, n) = (0.2, 0.5, inf); it
/// prints the tuple in another order. At equal RTTs (1, 0, inf) is LIA's first term, (0, 0, any) is
/// Coupled and (1, 0, 1) is Semicoupled.
#[derive(Clone, Debug)]
pub struct Generalized {
    beta: f64,
    eta: f64,
    norm: f64,
}

impl Rule for Generalized {
    const NAME: &'static str = "generalized";
    const SUMMARY: &'static str = "Balia's family: friendliness beta, responsiveness eta, norm n";
    const SOURCE: &'static str = "Balia, equation 12";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter {
            name: "beta",
            default: 0.2,
            min: 0.0,
            max: 100.0,
            choices: &[],
            unit: "",
            meaning: "weight of the norm against the path's own rate: 0 is fully coupled",
        },
        Parameter {
            name: "eta",
            default: 0.5,
            min: 0.0,
            max: 100.0,
            choices: &[],
            unit: "",
            meaning: "how much larger the decrease of a slower path is",
        },
        Parameter {
            name: "norm",
            default: f64::INFINITY,
            min: 1.0,
            max: f64::INFINITY,
            choices: &[1.0, 2.0, f64::INFINITY],
            unit: "",
            meaning: "n, the norm of the rates",
        },
    ];
    const INCREASE_CANCELS: bool = true;
    /// `D_r >= w_r` where `eta (a_r - 1) >= 1`: with eta = 0.5 from `a_r = 3` on.
    const LEAVES_CAPACITY: Option<&'static str> =
        Some("a loss takes all of a path that is a third as fast as another, or slower");
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> Generalized {
        Generalized { beta: values[0], eta: values[1], norm: values[2] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let (path, x, total) = (&paths[r], paths[r].rate(), total_rate(paths));
        let beta = S::from_f64(self.beta);
        let numerator = (S::of(1) - beta) * x + beta * self.norm_of_rates(paths);
        let phi = S::of(2) * numerator / (path.rtt * path.rtt * x * total * total);
        phi * self.decrease(r, paths)
    }

    #[inline]
    fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let excess = rate_ratio(r, paths) - S::of(1);
        paths[r].window / S::of(2) * (S::of(1) + S::from_f64(self.eta) * excess)
    }
}

impl Generalized {
    /// `||x||_n`.
    #[inline]
    fn norm_of_rates<S: Scalar>(&self, paths: &[Path<S>]) -> S {
        if self.norm == 1.0 {
            total_rate(paths)
        } else if self.norm == 2.0 {
            paths.iter().fold(S::of(0), |sum, path| sum + path.rate() * path.rate()).sqrt()
        } else {
            fastest_rate(paths)
        }
    }
}
