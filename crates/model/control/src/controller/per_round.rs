//! Increases computed once per round trip, as by the kernel programs.

use crate::controller::Controller;
use crate::rule::Rule;

impl<R: Rule> Controller<R> {
    /// Whether a loss-based rule's increase is computed once per round trip of a path and added for
    /// every packet acknowledged in it, instead of computed for every packet. It is computed anew
    /// after each loss and timeout of the path and when congestion avoidance begins. RFC 6356,
    /// section 4, allows it for LIA; `docs/reference/kernel.md` bounds the difference.
    pub fn set_increase_per_round(&mut self, per_round: bool) {
        self.increase_per_round = per_round;
    }

    /// The rule's increase per packet.
    #[inline(always)]
    pub(super) fn increase(&mut self, r: usize) -> f64 {
        let last = self.state[r].increase;
        if self.increase_per_round && !last.is_nan() {
            return last;
        }
        let increase = self.increase_now(r);
        if self.increase_per_round {
            self.state[r].increase = increase;
        }
        increase
    }
}
