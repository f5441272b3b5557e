//! NewReno.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Rule};
use crate::scalar::Scalar;

/// Every path as one TCP of its own (uncoupled): `I_r = 1/w_r`, `D_r = w_r/2`.
///
/// RFC 5681, section 3.1, equation 3, counted in acknowledged packets.
#[derive(Clone, Debug)]
pub struct Reno;

impl Rule for Reno {
    const NAME: &'static str = "reno";
    const SUMMARY: &'static str = "NewReno on every path by itself, uncoupled";
    const SOURCE: &'static str = "RFC 5681, section 3.1";
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(_values: &[f64]) -> Reno {
        Reno
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        S::of(1) / paths[r].window
    }
}
