//! DCTCP.

use crate::path::Path;
use crate::rule::{BESIDE_BBR, Parameter, Rule};
use crate::scalar::Scalar;

/// DCTCP on every path by itself (uncoupled): NewReno, but a round trip with marks takes
/// `alpha_r w_r/2`, where `alpha_r` is the smoothed share of the path's packets that are marked.
///
/// RFC 8257, section 3.3. A round trip with the share M of its packets marked moves `alpha` to
/// `(1 - g) alpha + g M`, with `alpha = 1` at first and `g = 1/16` (section 4.2), and then, if
/// M > 0, the window. Losses halve it, and growth is NewReno's, in round trips with marks, too
/// (sections 3.4 and 3.5). With marks in every round trip the window is `2/M`, where marks take the
/// packet that it grows.
#[derive(Clone, Debug)]
pub struct Dctcp {
    g: f64,
}

/// DCTCP's memory of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpMemory {
    /// The smoothed share of packets that are marked.
    pub alpha: f64,
}

impl Default for DctcpMemory {
    fn default() -> DctcpMemory {
        DctcpMemory { alpha: 1.0 }
    }
}

impl Rule for Dctcp {
    const NAME: &'static str = "dctcp";
    const SUMMARY: &'static str =
        "DCTCP on every path by itself, uncoupled: reduces by the share of packets that are marked";
    const SOURCE: &'static str = "RFC 8257";
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "g",
        default: 1.0 / 16.0,
        min: 0.001,
        max: 1.0,
        choices: &[],
        unit: "",
        meaning: "weight of the last round trip in the share of packets that are marked",
    }];
    const SCALABLE: bool = true;
    /// The decrease at marks depends on those of many round trips.
    const FLUID: bool = false;
    const RENO_ON_ONE_PATH: bool = true;
    const CAUTION: Option<&'static str> = Some(BESIDE_BBR);
    type Memory<S: Scalar> = DctcpMemory;

    fn with(values: &[f64]) -> Dctcp {
        Dctcp { g: values[0] }
    }

    #[inline]
    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        S::of(1) / paths[r].window
    }

    fn on_marked_share(&self, memory: &mut DctcpMemory, share: f64) {
        memory.alpha = (1.0 - self.g) * memory.alpha + self.g * share;
    }

    fn decrease_at_marks(&self, path: &Path<f64>, memory: &DctcpMemory) -> f64 {
        memory.alpha * path.window / 2.0
    }
}
