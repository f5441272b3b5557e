//! Balia, the Balanced Linked Adaptation.

use crate::path::{Path, fastest_rate, total_rate};
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// Balia: `I_r = x_r/(tau_r y^2) (1 + a_r)/2 (4 + a_r)/5`, `D_r = w_r/2 min(a_r, cap)`, where
/// `a_r = max_k x_k / x_r` and `y = sum_k x_k`.
///
/// Peng, Walid, Hwang, Low, equations 1 and 2. Equation 2 has no cap; later texts cap `a_r` at 1.5,
/// which is the default here, and `cap = inf` is the paper's form.
#[derive(Clone, Debug)]
pub struct Balia {
    cap: f64,
}

impl Rule for Balia {
    const NAME: &'static str = "balia";
    const SUMMARY: &'static str = "Balanced linked adaptation: friendly and responsive in balance";
    const SOURCE: &'static str = "Balia, equations 1 and 2";
    const HAS_PROGRAM: bool = true;
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "cap",
        default: 1.5,
        min: 1.0,
        max: f64::INFINITY,
        choices: &[],
        unit: "",
        meaning: "largest a_r in the decrease; inf is equation 2 as printed",
    }];
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> Balia {
        Balia { cap: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let (total, a) = (total_rate(paths), rate_ratio(r, paths));
        let balance = (S::of(1) + a) * (S::of(4) + a) / S::of(10);
        paths[r].rate() / (paths[r].rtt * total * total) * balance
    }

    #[inline]
    fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        paths[r].window / S::of(2) * rate_ratio(r, paths).min(S::from_f64(self.cap))
    }
}

/// `a_r`: the fastest path's rate over this path's, at least 1.
#[inline]
pub(super) fn rate_ratio<S: Scalar>(r: usize, paths: &[Path<S>]) -> S {
    fastest_rate(paths) / paths[r].rate()
}
