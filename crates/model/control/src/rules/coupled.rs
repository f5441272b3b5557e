//! Coupled, the fully coupled algorithm.

use crate::path::{Path, total_window};
use crate::rule::{BESIDE_BBR, Rule};
use crate::scalar::Scalar;

/// Coupled: `I_r = w_r / (sum_k w_k)^2`, `D_r = w_r/2`.
///
/// Peng, Walid, Hwang, Low (Balia), section II-B, after Kelly and Voice 2005 and Han et al. 2006.
#[derive(Clone, Debug)]
pub struct Coupled;

impl Rule for Coupled {
    const NAME: &'static str = "coupled";
    const SUMMARY: &'static str = "Fully coupled: all traffic moves to the best paths";
    const SOURCE: &'static str = "Balia, section II-B";
    const HAS_PROGRAM: bool = true;
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(_values: &[f64]) -> Coupled {
        Coupled
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let total = total_window(paths);
        paths[r].window / (total * total)
    }
}
