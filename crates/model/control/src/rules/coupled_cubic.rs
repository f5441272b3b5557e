//! CUBIC, coupled as LIA couples Reno.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::rules::cubic::cubic_increase;
use crate::scalar::Scalar;

/// [`Cubic`](crate::rules::Cubic) on every path, with a smaller C and a smaller slope of `W_est`:
///
/// - `C_r = C min( v_r max_k(y_k^4/v_k) / (sum_k y_k)^4 , 1 )`,
/// - `slope_r = min( v_r max_k(y_k^2/v_k) / (sum_k y_k)^2 , 1 )`, LIA's increase over Reno's,
///
/// with `v_k = max(w_k, peak_k)`, `y_k = v_k/tau_k`, and `D_r = 0.3 w_r`.
///
/// Growth and decrease are those of RFC 9438, and over one path the rule is CUBIC. The coupling is
/// ours, derived as LIA's was from its two goals (RFC 6356, section 2). CUBIC's rate over a path
/// with loss probability p is `x = (a C / (tau p^3))^(1/4)` (RFC 9438, equation 5), so that CUBIC
/// alone would have `x_k (C/C_k)^(1/4)` where this rule has `x_k`. With `C_r` in proportion to the
/// window, the window is in proportion to `1/p_r`, as LIA's. The connection then has as much as
/// CUBIC on the best path, `sum_k x_k = max_k x_k (C/C_k)^(1/4)`, with the `C_r` above. The minimum
/// is LIA's: on no path more than CUBIC. The slope follows in the same way from Reno's
/// `x = sqrt(2 a/p)/tau`.
///
/// With equal RTTs, `C_r = C s_r s^3` and `slope_r = s_r s`, where `s_r` is the path's share of the
/// connection's window and s the largest share. Such windows together follow the curve of one
/// CUBIC, whose time runs at s times the speed.
///
/// LIA has the present window where v is. CUBIC's curve is a function of the time since the loss:
/// a sibling's loss would speed up all of that time, not only what follows: the window would
/// jump. Windows at the last loss are nearly constant in equilibrium.
///
/// Other couplings of CUBIC, which are not used here: MPCubic (Le, Haw, Hong, Lee, IEICE Trans.
/// Commun. E95-B(7), 2012), mpCUBIC (Kato, Haruyama, Yamamoto, Ohzahata, WorldCIST 2020), Coupled
/// CUBIC (Lee, Kim, Kwon, Han, Computer Systems Science and Engineering 45(1), 2023).
#[derive(Clone, Debug)]
pub struct CoupledCubic {
    c: f64,
}

impl Rule for CoupledCubic {
    const NAME: &'static str = "coupled-cubic";
    const SUMMARY: &'static str = "CUBIC, linked as LIA: as much in total as one CUBIC";
    const SOURCE: &'static str = "RFC 9438; the coupling is of this project, after RFC 6356";
    const HAS_PROGRAM: bool = true;
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "c",
        default: 0.4,
        min: 0.001,
        max: 100.0,
        choices: &[],
        unit: "packets/s^3",
        meaning: "C, how steeply the window of one CUBIC grows",
    }];
    /// The increase follows the time since the last loss.
    const FLUID: bool = false;
    const COUNTS_ROUNDS: bool = true;
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> CoupledCubic {
        CoupledCubic { c: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        let total = paths
            .iter()
            .fold(S::of(0), |sum, path| sum + lasting_window(path) / path.rtt);
        let (mut cubic, mut reno) = (S::of(0), S::of(0));
        for path in paths {
            let window = lasting_window(path);
            let share = window / path.rtt / total;
            let square = share * share;
            let ratio = lasting_window(&paths[r]) / window;
            cubic = cubic.max(square * square * ratio);
            reno = reno.max(square * ratio);
        }
        let c = S::from_f64(self.c) * cubic.min(S::of(1));
        cubic_increase(&paths[r], c, reno.min(S::of(1)))
    }

    #[inline]
    fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        paths[r].window * S::of(3) / S::of(10)
    }
}

/// `v`, packets: the window without its sawtooth.
#[inline]
fn lasting_window<S: Scalar>(path: &Path<S>) -> S {
    path.window.max(path.peak)
}
