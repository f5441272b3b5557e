//! Weighted Vegas.

use crate::path::Path;
use crate::rule::{Parameter, Rule};
use crate::scalar::Scalar;

/// Weighted Vegas on every path by itself. Once per round trip, with tau the mean RTT of that round
/// and `diff = w (tau - tau0)/tau`: `w += kappa` below kappa, `w -= kappa` above, and `w >= 2`.
/// `D_r = w_r/2`. A flow's share of one bottleneck is `kappa_i / sum kappa_j`.
///
/// The rate-adjustment algorithm for aggregate TCP (I-TCP), section III; Brakmo and Peterson 1995
/// with alpha = beta = kappa and gamma = 1. The smallest window and slow start are as in ns-2
/// (`tcp-vegas.cc`), with which I-TCP was simulated: the window doubles in every other round trip;
/// slow start ends where a round without growth has `diff > 1`, with a window reduced by an eighth.
/// Departure: the response to a loss is NewReno's; Brakmo's finer retransmission timing is omitted.
#[derive(Clone, Debug)]
pub struct Vegas {
    kappa: f64,
}

impl Rule for Vegas {
    const NAME: &'static str = "vegas";
    const SUMMARY: &'static str = "Vegas on every path by itself, weighted by kappa";
    const SOURCE: &'static str = "I-TCP, section III";
    const HAS_PROGRAM: bool = true;
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "kappa",
        default: 1.0,
        min: 0.01,
        max: 1e6,
        choices: &[],
        unit: "packets",
        meaning: "packets to keep queued, and the step of the window",
    }];
    const DELAY_BASED: bool = true;
    const CAUTION: Option<&'static str> =
        Some("a delayed ACK is a queue to it: with kappa = 1 it leaves clean paths idle, less with 4");
    const WEIGHT: Option<&'static str> = Some("kappa");
    /// Linux has a `vegas` of its own, without a weight.
    const LINUX_NAME: Option<&'static str> = Some("vegas_k");
    type Memory<S: Scalar> = ();

    fn with(values: &[f64]) -> Vegas {
        Vegas { kappa: values[0] }
    }

    fn increase<S: Scalar>(&self, _r: usize, _paths: &[Path<S>]) -> S {
        S::of(0)
    }

    fn on_round<S: Scalar>(&self, r: usize, paths: &[Path<S>], _memory: &mut [()]) -> S {
        let kappa = S::from_f64(self.kappa);
        let change = step_towards(kappa, queued(&paths[r])) * kappa;
        change.max(S::of(2) - paths[r].window)
    }

    fn leaves_slow_start<S: Scalar>(&self, path: &Path<S>) -> Option<S> {
        ends_slow_start(path, less_an_eighth(path))
    }

    fn pauses_in_slow_start(&self) -> bool {
        true
    }

    fn weight(&self) -> Option<f64> {
        Some(self.kappa)
    }

    fn set_weight(&mut self, weight: f64) {
        self.kappa = weight;
    }
}

/// `diff`: the queued packets of this path, averaged over the round trip that just ended.
pub(super) fn queued<S: Scalar>(path: &Path<S>) -> S {
    path.window * (path.round_rtt - path.base_rtt) / path.round_rtt
}

/// 1 where fewer packets than `target` are queued, -1 where there are more, 0 at the target.
pub(super) fn step_towards<S: Scalar>(target: S, queued: S) -> S {
    if queued < target {
        S::of(1)
    } else if queued > target {
        S::of(0) - S::of(1)
    } else {
        S::of(0)
    }
}

/// `reduced`, at least 2 but no increase, where `diff` exceeds gamma = 1.
pub(super) fn ends_slow_start<S: Scalar>(path: &Path<S>, reduced: S) -> Option<S> {
    (queued(path) > S::of(1)).then(|| reduced.max(S::of(2)).min(path.window))
}

/// The window with which Vegas leaves slow start, where it may.
pub(super) fn less_an_eighth<S: Scalar>(path: &Path<S>) -> S {
    path.window - path.window / S::of(8)
}
