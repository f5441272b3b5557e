//! Semicoupled.

use crate::path::{Path, total_window};
use crate::rule::{BESIDE_BBR, Rule};
use crate::scalar::Scalar;

/// Semicoupled: `I_r = 1 / sum_k w_k`, `D_r = w_r/2`.
///
/// Peng, Walid, Hwang, Low (Balia), section II-B, after Wischik et al. 2011.
#[derive(Clone, Debug)]
pub struct Semicoupled;

impl Rule for Semicoupled {
    const NAME: &'static str = "semicoupled";
    const SUMMARY: &'static str = "Semicoupled: favours better paths, keeps some traffic on all";
    const SOURCE: &'static str = "Balia, section II-B";
    const HAS_PROGRAM: bool = true;
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(_values: &[f64]) -> Semicoupled {
        Semicoupled
    }

    #[inline]
    fn increase<S: Scalar>(&self, _r: usize, paths: &[Path<S>]) -> S {
        S::of(1) / total_window(paths)
    }
}
