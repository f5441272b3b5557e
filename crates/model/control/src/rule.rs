//! The trait of congestion avoidance rules.

use core::fmt::Debug;

use crate::delivery::{Delivery, Event};
use crate::path::Path;
use crate::scalar::Scalar;

/// The caution of rules that get an eighth of a link or less over two paths beside one flow of
/// BBRv1, where a half is fair; the queue is one bandwidth-delay product
/// (docs/notebook/competitors.md).
pub const BESIDE_BBR: &str = "of a 100 Mbps link it gets an eighth or less beside BBRv1";

/// A law of congestion avoidance. Its value holds its parameters and nothing else; its results
/// depend on the paths alone, so that the same source serves packets, fluid models and Jacobians.
///
/// A loss-based rule is the pair [`increase`](Rule::increase) and [`decrease`](Rule::decrease). A
/// delay-based rule acts once per round trip, in [`on_round`](Rule::on_round), and may keep
/// [`Memory`](Rule::Memory) of each path. A rule by delivery rates acts at every event, in
/// [`on_event`](Rule::on_event), and sets a [`pacing_rate`](Rule::pacing_rate), too.
pub trait Rule: Clone + Debug {
    /// The name in scenario files, on the command line and in results.
    const NAME: &'static str;
    /// Other names.
    const ALIASES: &'static [&'static str] = &[];
    /// One line for a list of algorithms.
    const SUMMARY: &'static str;
    /// Where the equations are printed.
    const SOURCE: &'static str;
    /// The parameters, in the order in which [`with`](Rule::with) takes their values.
    const PARAMETERS: &'static [Parameter] = &[];
    /// Whether the rule acts once per round trip instead of once per acknowledged packet.
    const DELAY_BASED: bool = false;
    /// Whether the rule sets the window at every event of a path, by samples of its delivery rate.
    /// The endpoint reports each packet, and paces.
    const BY_RATE: bool = false;
    /// Whether the rule reduces the window by the share of packets that are marked (ECN), in
    /// [`decrease_at_marks`](Rule::decrease_at_marks): a scalable rule (RFC 9331). Every other
    /// takes a mark as a loss.
    const SCALABLE: bool = false;
    /// Whether the rule reads [`Path::rounds`].
    const COUNTS_ROUNDS: bool = false;

    /// Why, by its own equations, the rule alone on a set of paths does not always use 95 % of them
    /// where the only losses are at queues of one bandwidth-delay product.
    const LEAVES_CAPACITY: Option<&'static str> = None;
    /// Where a user must expect much less goodput than from other rules; programs that offer the
    /// rule print it.
    const CAUTION: Option<&'static str> = None;
    /// Whether a window far above the equilibrium shrinks so slowly that an overshoot of slow start
    /// lasts for minutes.
    const KEEPS_OVERSHOOT: bool = false;
    /// Whether `I_r` and `D_r` at a state describe the rule, so that it has a fluid model. False
    /// where they depend on the time since the last loss.
    const FLUID: bool = !Self::DELAY_BASED && !Self::BY_RATE;
    /// Whether the rule with its defaults is NewReno over one path: `I = 1/w`, `D = w/2`.
    const RENO_ON_ONE_PATH: bool = Self::FLUID;
    /// Whether windows and RTTs alone give the loss probability of the equilibrium, `phi_r`.
    const EQUILIBRIUM_BY_LOSS: bool = Self::FLUID;
    /// Whether `I_r` is a difference of two terms that may cancel. Its rounding error is then
    /// relative to NewReno's `1/w_r`, not to `I_r`.
    const INCREASE_CANCELS: bool = false;
    /// The parameter that is a connection's weight: competing flows share a link in proportion to
    /// it, and it may change during a connection. See [`weight`](Rule::weight).
    const WEIGHT: Option<&'static str> = None;
    /// The rule that this one is another reading of.
    const VARIANT_OF: Option<&'static str> = None;
    /// The specification that a study of all rules runs: with parameters where the defaults make
    /// the rule NewReno by another name.
    const STUDIED_AS: &'static str = Self::NAME;
    /// Whether `anabranch-kernel` has a program that runs it: a header in its `bpf/rules/`.
    const HAS_PROGRAM: bool = false;
    /// The name in Linux, where that is not [`NAME`](Rule::NAME) with underscores for hyphens.
    const LINUX_NAME: Option<&'static str> = None;

    /// The rule's own state of one path; `()` for most.
    type Memory<S: Scalar>: Copy + Debug + Default;

    /// The rule with these parameter values, one for each of [`PARAMETERS`](Rule::PARAMETERS).
    fn with(values: &[f64]) -> Self;

    /// `I_r`: change of the window of path `r` per acknowledged packet, packets. May be negative.
    /// Never called for delay-based rules and for rules by delivery rates.
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S;

    /// `D_r`: decrease of the window of path `r` at a loss, packets.
    #[inline]
    fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        paths[r].window / S::of(2)
    }

    /// Change of the window of path `r` at the end of one of its round trips, packets.
    fn on_round<S: Scalar>(
        &self,
        _r: usize,
        _paths: &[Path<S>],
        _memory: &mut [Self::Memory<S>],
    ) -> S {
        S::of(0)
    }

    /// Called at a loss on the path that this memory belongs to.
    fn on_loss<S: Scalar>(&self, _memory: &mut Self::Memory<S>) {}

    /// A round trip is over on the path that this memory belongs to, in which this share of the
    /// packets was marked. Called where acknowledgements count marks.
    fn on_marked_share(&self, _memory: &mut Self::Memory<f64>, _share: f64) {}

    /// Decrease of the window of a path after a round trip with marks, packets. Called for scalable
    /// rules, after [`on_marked_share`](Rule::on_marked_share).
    fn decrease_at_marks(&self, path: &Path<f64>, _memory: &Self::Memory<f64>) -> f64 {
        path.window / 2.0
    }

    /// The window of a path after an event, packets. Called for rules by delivery rates.
    fn on_event(
        &self,
        path: &Path<f64>,
        _memory: &mut Self::Memory<f64>,
        _delivery: &mut Delivery,
        _event: &Event,
    ) -> f64 {
        path.window
    }

    /// The rate at which a path sends at most, packets/s; infinite if it is not paced. A rule that
    /// sets windows may give [`Path::pacing_rate`].
    fn pacing_rate(&self, _path: &Path<f64>, _memory: &Self::Memory<f64>) -> f64 {
        f64::INFINITY
    }

    /// The window with which the path leaves slow start, packets; `None` to stay. Called at the end
    /// of each round trip in slow start.
    fn leaves_slow_start<S: Scalar>(&self, _path: &Path<S>) -> Option<S> {
        None
    }

    /// Whether slow start grows in every other round trip only. A round without growth sends one
    /// window, so [`leaves_slow_start`](Rule::leaves_slow_start) is asked at the end of these
    /// rounds only.
    fn pauses_in_slow_start(&self) -> bool {
        false
    }

    /// The value of the parameter [`WEIGHT`](Rule::WEIGHT); `None` without one.
    fn weight(&self) -> Option<f64> {
        None
    }

    /// Changes the value of the parameter [`WEIGHT`](Rule::WEIGHT); without one, does nothing.
    fn set_weight(&mut self, _weight: f64) {}

    /// Whether it has values of its own for the first path, the second and so on, so that none may
    /// be left out. No rule of the table has.
    fn knows_paths_by_place(&self) -> bool {
        false
    }
}

/// ABE (RFC 8511): the window that is left at a mark, as a share of it, of every rule that takes a
/// mark as a loss. Its default is the rule's own decrease.
pub const BETA_ECN: Parameter = Parameter {
    name: "beta_ecn",
    default: f64::NAN,
    min: 0.5,
    max: 0.95,
    choices: &[],
    unit: "",
    meaning: "share of the window that is left at a mark",
};

/// `phi_r = I_r / D_r`: the loss probability at which the window of path `r` is in equilibrium.
pub fn phi<R: Rule, S: Scalar>(rule: &R, r: usize, paths: &[Path<S>]) -> S {
    rule.increase(r, paths) / rule.decrease(r, paths)
}

/// A parameter of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// The name in scenario files and on the command line.
    pub name: &'static str,
    /// The value where none is given.
    pub default: f64,
    /// The smallest allowed value.
    pub min: f64,
    /// The largest allowed value, which may be infinite.
    pub max: f64,
    /// The only allowed values; empty where every value from `min` to `max` is allowed.
    pub choices: &'static [f64],
    /// The unit, empty for a pure number.
    pub unit: &'static str,
    /// Meaning, in one line.
    pub meaning: &'static str,
}
