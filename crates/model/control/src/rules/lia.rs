//! LIA, the Linked Increases Algorithm.

use crate::path::{Path, total_rate};
use crate::rule::{BESIDE_BBR, Rule};
use crate::scalar::Scalar;

/// LIA, which the papers call Max:
/// `I_r = min( max_k(w_k/tau_k^2) / (sum_k w_k/tau_k)^2 , 1/w_r )`, `D_r = w_r/2`.
///
/// RFC 6356, section 3, with the alpha of its equation 2 (`alpha / sum w` is the first term).
/// Counted in packets where the RFC counts bytes.
#[derive(Clone, Debug)]
pub struct Lia;

impl Rule for Lia {
    const NAME: &'static str = "lia";
    const ALIASES: &'static [&'static str] = &["max"];
    const SUMMARY: &'static str = "Linked increases: as much in total as one TCP on the best path";
    const SOURCE: &'static str = "RFC 6356, section 3";
    const HAS_PROGRAM: bool = true;
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(_values: &[f64]) -> Lia {
        Lia
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let best = paths.iter().fold(S::of(0), |max, path| max.max(path.rate() / path.rtt));
        let total = total_rate(paths);
        (best / (total * total)).min(S::of(1) / paths[r].window)
    }
}
