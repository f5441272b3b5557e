//! MulTCP: a path that behaves as several.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// Every path by itself as kappa connections of NewReno: `I_r = kappa/w_r`, `D_r = w_r/(2 kappa)`.
///
/// The rate-adjustment algorithm for aggregate TCP (I-TCP), section III, which would "extend a
/// similar idea to TCP Reno"; Crowcroft and Oechslin 1998. A loss on one of kappa connections
/// halves a window of `w/kappa`. With kappa below 1 a loss takes at most half of the window, as of
/// one connection, and the share below 1 comes from the increase, which is then `kappa^2/w`.
#[derive(Clone, Debug)]
pub struct Multcp {
    kappa: f64,
}

impl Rule for Multcp {
    const NAME: &'static str = "multcp";
    const SUMMARY: &'static str = "NewReno on every path by itself, as kappa connections";
    const SOURCE: &'static str = "I-TCP, section III; Crowcroft and Oechslin 1998";
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "kappa",
        default: 1.0,
        min: 0.01,
        max: 1e6,
        choices: &[],
        unit: "",
        meaning: "number of connections that a path behaves as",
    }];
    const WEIGHT: Option<&'static str> = Some("kappa");
    const STUDIED_AS: &'static str = "multcp:kappa=2";
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> Multcp {
        Multcp { kappa: values[0] }
    }

    /// The loss probability in equilibrium is `2 kappa^2/w^2` for every kappa.
    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        S::from_f64(self.kappa * self.kappa.min(1.0)) / paths[r].window
    }

    #[inline]
    fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        paths[r].window / S::from_f64(2.0 * self.kappa.max(1.0))
    }

    fn weight(&self) -> Option<f64> {
        Some(self.kappa)
    }

    fn set_weight(&mut self, weight: f64) {
        self.kappa = weight;
    }
}
