//! OLIA, the Opportunistic Linked Increases Algorithm.

use crate::path::{Path, total_rate};
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// OLIA: `I_r = (w_r/tau_r^2) / (sum_k w_k/tau_k)^2 + alpha_r/w_r`, `D_r = w_r/2`.
///
/// Let M be the paths with the largest window, B the paths with the largest `l_r/tau_r^2`, where
/// `l_r` is the packets between losses, and C the paths of B not in M. With C empty every
/// `alpha_r` is 0; else it is `1/(n |C|)` in C, `-1/(n |M|)` in M and 0 elsewhere, so window moves
/// from M to C.
///
/// draft-khalili-mptcp-congestion-control, section 3. Departure: the draft prints the measure of a
/// good path as `l_r^2/tau_r`; its own reason (a rate is about `sqrt(2 l_r)/tau_r`) and its
/// authors' code both give `l_r/tau_r^2`. The printed form is the rule `olia-printed`. (Where alpha
/// is printed without its minus sign, as in the RSF paper's table 1, it is an erratum.)
#[derive(Clone, Debug)]
pub struct Olia {
    alpha: f64,
}

impl Rule for Olia {
    const NAME: &'static str = "olia";
    const SUMMARY: &'static str = "Opportunistic linked increases: Pareto-optimal, still responsive";
    const SOURCE: &'static str = "draft-khalili-mptcp-congestion-control, section 3";
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "alpha",
        default: 1.0,
        min: 0.0,
        max: 1.0,
        choices: &[0.0, 1.0],
        unit: "",
        meaning: "0 leaves out the second term, which moves window to the best paths",
    }];
    const HAS_PROGRAM: bool = true;
    const INCREASE_CANCELS: bool = true;
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> Olia {
        Olia { alpha: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        if self.alpha == 0.0 {
            return first_term(r, paths);
        }
        increase(r, paths, |path| packets_per_loss(path) / (path.rtt * path.rtt))
    }
}

#[inline]
fn first_term<S: Scalar>(r: usize, paths: &[Path<S>]) -> S {
    let total = total_rate(paths);
    paths[r].rate() / paths[r].rtt / (total * total)
}

/// The increase; the best paths have the largest `quality`.
#[inline]
pub(super) fn increase<S: Scalar>(
    r: usize,
    paths: &[Path<S>],
    quality: impl Fn(&Path<S>) -> S,
) -> S {
    first_term(r, paths) + alpha(r, paths, quality) / paths[r].window
}

/// `l_r`: packets between the last two losses, or since the last loss if those are more.
#[inline]
pub(super) fn packets_per_loss<S: Scalar>(path: &Path<S>) -> S {
    path.since_loss.max(path.between_losses)
}

/// `alpha_r`.
#[inline]
fn alpha<S: Scalar>(r: usize, paths: &[Path<S>], quality: impl Fn(&Path<S>) -> S) -> S {
    let largest = paths.iter().fold(S::of(0), |max, path| max.max(path.window));
    let best = paths.iter().fold(S::of(0), |max, path| max.max(quality(path)));
    let in_m = |path: &Path<S>| path.window >= largest;
    let in_c = |path: &Path<S>| !in_m(path) && quality(path) >= best;

    let size_of_c = paths.iter().filter(|path| in_c(path)).count();
    if size_of_c == 0 {
        return S::of(0);
    }
    let share = |size: usize| S::of(1) / S::of((paths.len() * size) as u64);
    if in_c(&paths[r]) {
        share(size_of_c)
    } else if in_m(&paths[r]) {
        S::of(0) - share(paths.iter().filter(|path| in_m(path)).count())
    } else {
        S::of(0)
    }
}
