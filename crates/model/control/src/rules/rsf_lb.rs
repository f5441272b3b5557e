//! RSF-LB, the loss-balancing rule of the rent-seeking framework.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// RSF-LB: `I_r = 1/w_r min(1, (mu - x_r p_r)/(x_r p_r))`, which is negative beyond the target rate
/// of losses; `D_r = w_r/2`.
///
/// The rent-seeking framework, equation 2. `1/p_r` is estimated as the smoothed packets between
/// losses, or the packets since the last loss if those are more (as RFC 5348, section 5.4, counts
/// the open interval); otherwise the estimate of a path whose losses have ceased would never
/// change.
#[derive(Clone, Debug)]
pub struct RsfLb {
    mu: f64,
}

impl Rule for RsfLb {
    const NAME: &'static str = "rsf-lb";
    const SUMMARY: &'static str = "Rent-seeking framework, every path at the same losses per second";
    const SOURCE: &'static str = "RSF, equation 2";
    const HAS_PROGRAM: bool = true;
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "mu",
        default: 4.0,
        min: 0.0001,
        max: 1e6,
        choices: &[],
        unit: "packets/s",
        meaning: "lost packets per second at which the window is in equilibrium",
    }];
    /// Only while the losses per second are at most half of the target.
    const RENO_ON_ONE_PATH: bool = false;
    /// The increase itself depends on the loss probability.
    const EQUILIBRIUM_BY_LOSS: bool = false;
    const INCREASE_CANCELS: bool = true;
    /// Four losses per second are more than most paths have: there it is NewReno.
    const STUDIED_AS: &'static str = "rsf-lb:mu=0.5";
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> RsfLb {
        RsfLb { mu: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let (path, one) = (&paths[r], S::of(1));
        if path.loss_interval <= S::of(0) {
            return one / path.window;
        }
        let losses_per_s = path.rate() / path.loss_interval.max(path.since_loss);
        one.min((S::from_f64(self.mu) - losses_per_s) / losses_per_s) / path.window
    }
}
