//! The family of rules between fully coupled and uncoupled.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// The rule of the family with index phi: `I_r = (w_r/W)^(1 - phi) / W` with `W = sum_k w_k`,
/// `D_r = w_r/2`. In equilibrium `w_r` is proportional to `(1/p_r)^(1/phi)`.
///
/// draft-khalili-mptcp-congestion-control, section 2, prints that proportion for 0 < phi < 2 and
/// names the ends: 0 is fully coupled, 1 LIA (at equal RTTs, without its cap) and 2 uncoupled. The
/// increase is the one whose equilibrium has the proportion and which is NewReno's over one path.
#[derive(Clone, Debug)]
pub struct Linked {
    phi: f64,
}

impl Rule for Linked {
    const NAME: &'static str = "linked";
    const SUMMARY: &'static str = "The family from fully coupled (phi=0) to uncoupled (phi=2)";
    const SOURCE: &'static str = "draft-khalili-mptcp-congestion-control, section 2";
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "phi",
        default: 1.0,
        min: 0.0,
        max: 2.0,
        choices: &[0.0, 0.5, 1.0, 1.5, 2.0],
        unit: "",
        meaning: "windows are in equilibrium proportional to the loss probability to the -1/phi",
    }];
    const STUDIED_AS: &'static str = "linked:phi=0.5";
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> Linked {
        Linked { phi: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let total = paths.iter().fold(S::of(0), |sum, path| sum + path.window);
        let share = paths[r].window / total;
        let power = match self.phi {
            0.0 => share,
            0.5 => share.sqrt(),
            1.0 => S::of(1),
            1.5 => S::of(1) / share.sqrt(),
            _ => S::of(1) / share,
        };
        power / total
    }
}
