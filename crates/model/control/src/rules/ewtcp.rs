//! EWTCP, equally weighted TCP.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// EWTCP: `I_r = a/w_r`, `D_r = w_r/2`. Uncoupled, each path as a weighted TCP.
///
/// Peng, Walid, Hwang, Low (Balia), section II-B, after Honda et al. 2009.
#[derive(Clone, Debug)]
pub struct Ewtcp {
    a: f64,
}

impl Rule for Ewtcp {
    const NAME: &'static str = "ewtcp";
    const SUMMARY: &'static str = "A weighted TCP on every path, uncoupled";
    const SOURCE: &'static str = "Balia, section II-B";
    const HAS_PROGRAM: bool = true;
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "a",
        default: 1.0,
        min: 0.0,
        max: 100.0,
        choices: &[],
        unit: "",
        meaning: "growth of each path, as a multiple of NewReno's",
    }];
    const STUDIED_AS: &'static str = "ewtcp:a=0.5";
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> Ewtcp {
        Ewtcp { a: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        S::from_f64(self.a) / paths[r].window
    }
}
