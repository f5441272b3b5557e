//! OLIA with the measure of a good path that its draft prints.

use super::olia;
use crate::path::Path;
use crate::rule::{BESIDE_BBR, Rule};
use crate::scalar::Scalar;

/// [`Olia`](super::Olia), except that the best paths have the largest `l_r^2/tau_r`, as
/// draft-khalili-mptcp-congestion-control, section 3, prints it.
#[derive(Clone, Debug)]
pub struct OliaPrinted;

impl Rule for OliaPrinted {
    const NAME: &'static str = "olia-printed";
    const SUMMARY: &'static str = "OLIA with the best paths by l^2/rtt, as printed in its draft";
    const SOURCE: &'static str = "draft-khalili-mptcp-congestion-control, section 3";
    /// At unequal RTTs paths of equal quality do not lose alike, so that alpha is not 0.
    const EQUILIBRIUM_BY_LOSS: bool = false;
    const INCREASE_CANCELS: bool = true;
    const VARIANT_OF: Option<&'static str> = Some("olia");
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(_values: &[f64]) -> OliaPrinted {
        OliaPrinted
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        olia::increase(r, paths, |path| {
            let packets = olia::packets_per_loss(path);
            packets * packets / path.rtt
        })
    }
}
