//! wVegas, weighted Vegas for Multipath TCP.

use super::vegas::{ends_slow_start, less_an_eighth, queued, step_towards};
use crate::path::Path;
use crate::rule::{Parameter, Rule};
use crate::scalar::Scalar;

/// wVegas. At the end of each round trip of path r, with tau the mean RTT of that round,
/// `diff = w_r (tau - tau0_r)/tau` and `q = tau - tau0_r`:
///
/// 1. where `diff >= alpha_r`: the path's equilibrium rate becomes `w_r/tau`, its weight `k_r` that
///    rate over the sum of all paths', and `alpha_r = max(min_alpha, k_r total_alpha)`;
/// 2. `w_r += 1` where `diff < alpha_r`, `w_r -= 1` where `diff > alpha_r`;
/// 3. where `diff > alpha_r` and `q` has doubled since its smallest in such rounds:
///    `w_r *= 0.5 tau0_r/tau`, and a new smallest is sought;
/// 4. `w_r >= 2`.
///
/// At a loss `D_r = w_r/2`, and the path's equilibrium rate and smallest `q` are forgotten. Slow
/// start ends where `diff > 1`, with `w_r = w_r tau0_r/tau + 1`, as in the authors' implementation
/// for Linux (`mptcp_wvegas.c`). The paper refers to Vegas, which `vegas = 1` follows: the window
/// doubles in every other round trip, slow start ends with an eighth less, and `D_r = w_r/4`
/// (Brakmo and Peterson 1995, sections III-C and III-A; ns-2's `tcp-vegas.cc`).
///
/// Cao, Xu, Fu, "Delay-based Congestion Control for Multipath TCP", algorithm 3. The text of its
/// section III-A has the signs of step 2 swapped. Vegas' finer retransmission timing is
/// omitted.
///
/// **Departure: step 3 as printed, and in the authors' implementation, applies in every round**
/// (`drain = 0`). A window that grows by one packet per round then backs off when the second packet
/// is queued, twice the first, so `alpha_r` packets are never queued: alone, a path uses half to
/// three quarters of its link, and at most 0.94 with what else the implementation does
/// (`papers/wvegas`). The paper describes step 3 as a reaction to a delay above a threshold, so
/// here the threshold is the equilibrium, `alpha_r`; chosen after seeing results. Step 3 requires
/// `q > 0` in both forms, because an empty queue (0 >= 2 * 0) halves its own window otherwise.
#[derive(Clone, Debug)]
pub struct Wvegas {
    total_alpha: f64,
    min_alpha: f64,
    drain: f64,
    vegas: f64,
}

/// The state of a path in wVegas; zero means none yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct WvegasMemory<S> {
    /// `alpha_r`: packets to keep queued; at least the rule's `min_alpha`.
    pub alpha: S,
    /// Rate when the path last had `alpha_r` packets queued, packets/s. Kept until a loss, so that
    /// a path whose round has just ended is still part of its siblings' sum.
    pub equilibrium_rate: S,
    /// Smallest queueing delay since the last back-off, s.
    pub queue_delay: S,
}

impl Rule for Wvegas {
    const NAME: &'static str = "wvegas";
    const SUMMARY: &'static str = "Weighted Vegas: shares a total of queued packets among the paths";
    const SOURCE: &'static str = "wVegas, algorithm 3";
    const HAS_PROGRAM: bool = true;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter {
            name: "total_alpha",
            default: 10.0,
            min: 0.01,
            max: 1e6,
            choices: &[],
            unit: "packets",
            meaning: "packets to keep queued, over all paths",
        },
        Parameter {
            name: "min_alpha",
            default: 2.0,
            min: 0.01,
            max: 1e6,
            choices: &[],
            unit: "packets",
            meaning: "packets to keep queued on each path, at least and at first",
        },
        Parameter {
            name: "drain",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            choices: &[0.0, 1.0],
            unit: "",
            meaning: "back off at a doubled queue only above alpha (1), or in every round (0, printed)",
        },
        Parameter {
            name: "vegas",
            default: 0.0,
            min: 0.0,
            max: 1.0,
            choices: &[0.0, 1.0],
            unit: "",
            meaning: "slow start and decrease at a loss: of the authors' code for Linux (0), or of Vegas (1)",
        },
    ];
    const DELAY_BASED: bool = true;
    const CAUTION: Option<&'static str> =
        Some("beside Reno at a drop-tail queue six times total_alpha it gets a quarter or less");
    type Memory<S: Scalar> = WvegasMemory<S>;

    fn with(values: &[f64]) -> Wvegas {
        Wvegas { total_alpha: values[0], min_alpha: values[1], drain: values[2], vegas: values[3] }
    }

    fn increase<S: Scalar>(&self, _r: usize, _paths: &[Path<S>]) -> S {
        S::of(0)
    }

    fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        paths[r].window / S::of(if self.vegas == 0.0 { 2 } else { 4 })
    }

    fn on_round<S: Scalar>(
        &self,
        r: usize,
        paths: &[Path<S>],
        memory: &mut [WvegasMemory<S>],
    ) -> S {
        let (path, min_alpha) = (&paths[r], S::from_f64(self.min_alpha));
        let (rtt, diff) = (path.round_rtt, queued(path));

        let mut alpha = memory[r].alpha.max(min_alpha);
        if diff >= alpha {
            memory[r].equilibrium_rate = path.window / rtt;
            let total = memory.iter().fold(S::of(0), |sum, path| sum + path.equilibrium_rate);
            let weight = memory[r].equilibrium_rate / total;
            alpha = (weight * S::from_f64(self.total_alpha)).max(min_alpha);
        }
        memory[r].alpha = alpha;

        let mut window = path.window + step_towards(alpha, diff);
        if self.drain == 0.0 || diff > alpha {
            let (zero, q) = (S::of(0), rtt - path.base_rtt);
            let smallest = &mut memory[r].queue_delay;
            if *smallest == zero || q < *smallest {
                *smallest = q;
            }
            if q > zero && q >= *smallest + *smallest {
                window = window * path.base_rtt / (rtt + rtt);
                *smallest = zero;
            }
        }
        window.max(S::of(2)) - path.window
    }

    fn on_loss<S: Scalar>(&self, memory: &mut WvegasMemory<S>) {
        memory.equilibrium_rate = S::of(0);
        memory.queue_delay = S::of(0);
    }

    fn leaves_slow_start<S: Scalar>(&self, path: &Path<S>) -> Option<S> {
        let in_flight = path.window * path.base_rtt / path.round_rtt;
        let reduced = if self.vegas == 0.0 { in_flight + S::of(1) } else { less_an_eighth(path) };
        ends_slow_start(path, reduced)
    }

    fn pauses_in_slow_start(&self) -> bool {
        self.vegas != 0.0
    }
}
